"""Estimators of the role `mutual-information`, one a file."""
