"""One job: what a probe is given, its networks and samples, its attempts and failures."""
