"""Tensors in, tensors out: methods that do not import the kernel."""
