"""Estimators of the role `mutual-information`; those that train networks share a module."""
