"""Every component as data; imports penchant and attrs only."""
