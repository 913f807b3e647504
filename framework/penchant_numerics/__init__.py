"""Numerics that several plugins share; knows torch, not the kernel."""
