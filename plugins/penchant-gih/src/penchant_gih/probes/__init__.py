"""Probes: a module each, with its shards."""
