"""Every component as data, by topic."""
