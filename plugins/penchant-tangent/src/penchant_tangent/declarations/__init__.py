"""Every component as data, one topic per file."""
