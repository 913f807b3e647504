"""From what people type to a validated experiment, and from that to jobs."""
