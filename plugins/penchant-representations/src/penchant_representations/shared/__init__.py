"""What several modules of this plugin use."""
