"""Running jobs: what a probe is given, pools, networks, figures, progress."""
