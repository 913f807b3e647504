"""Figures, one file per probe."""
