"""Figures, one file a probe."""
