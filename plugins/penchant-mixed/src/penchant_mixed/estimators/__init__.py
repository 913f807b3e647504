"""Estimators of the role `directions`."""
