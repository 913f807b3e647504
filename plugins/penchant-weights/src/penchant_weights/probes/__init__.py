"""Code of the probes, one file each."""
