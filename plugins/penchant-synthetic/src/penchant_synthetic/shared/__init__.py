"""What several probes or components of this plugin use."""
