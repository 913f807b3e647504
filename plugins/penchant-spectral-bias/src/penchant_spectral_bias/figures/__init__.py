"""Figures of the probes, drawn from stored results."""
