"""Generative models and bottlenecks."""
