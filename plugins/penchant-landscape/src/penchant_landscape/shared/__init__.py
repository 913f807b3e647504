"""What several probes or figures of this plugin use."""
