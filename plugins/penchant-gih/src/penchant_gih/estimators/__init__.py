"""Estimators: a module each."""
