"""Estimators of the role `curvature`: one module each."""
