"""Every component as data, without any of the code behind it."""
