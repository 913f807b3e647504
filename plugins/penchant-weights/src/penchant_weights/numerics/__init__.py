"""Tensors in, tensors out: methods that know nothing of the kernel."""
