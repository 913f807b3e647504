"""Every component as data, one module per probe."""
