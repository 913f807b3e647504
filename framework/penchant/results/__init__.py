"""Quantities, results and run folders, and their files."""
