"""Every component as data."""
