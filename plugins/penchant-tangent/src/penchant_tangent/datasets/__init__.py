"""Samples of the datasets, one file each."""
