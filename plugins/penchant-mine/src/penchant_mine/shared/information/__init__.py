"""Mutual information: bounds, neighbours, bins, and what is known exactly."""
