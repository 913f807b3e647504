"""Figures: a module for each probe."""
