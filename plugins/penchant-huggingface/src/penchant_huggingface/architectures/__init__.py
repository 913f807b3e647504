"""The one architecture."""
