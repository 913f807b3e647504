"""Probes: what each measures, and its shards."""
