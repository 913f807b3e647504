"""Figures: one module a probe."""
