"""Figures: one module per probe."""
