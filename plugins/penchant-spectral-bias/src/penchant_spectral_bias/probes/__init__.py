"""Code of the probes."""
