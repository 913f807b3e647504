"""Architectures: statistics networks."""
