"""Every component as data, one module a probe."""
