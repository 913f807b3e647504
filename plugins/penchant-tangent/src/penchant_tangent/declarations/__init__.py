"""Every component as data, one topic a file."""
