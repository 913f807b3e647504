"""Probes, one module each."""
