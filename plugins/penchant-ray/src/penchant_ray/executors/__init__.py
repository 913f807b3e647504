"""Ways to run jobs and shards."""
