"""The one dataset."""
