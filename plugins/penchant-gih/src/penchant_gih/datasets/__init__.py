"""Datasets: a module each."""
