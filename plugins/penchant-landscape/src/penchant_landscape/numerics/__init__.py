"""Methods: tensors in, tensors out."""
