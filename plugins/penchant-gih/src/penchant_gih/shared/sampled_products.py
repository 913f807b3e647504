"""Inner products of geometries that are known by their gradients: no matrix is formed."""

from __future__ import annotations

import torch
from torch import Tensor


def squared_products(first: Tensor, second: Tensor) -> Tensor:
    """<A_i, B_j> of A_i = mean_p a_ip a_ip^T and B_j alike.

    Args:
        first: Gradients a (networks, inputs, D).
        second: Gradients b (networks, inputs, D).

    Returns:
        The products (networks, networks).
    """
    pairs = first.shape[1] * second.shape[1]
    # <a a^T, b b^T> = (a.b)^2.
    products = torch.einsum("ipd,jqd->ijpq", first, second)
    return products.square().sum((2, 3)) / pairs


def quadratic_forms(vectors: Tensor, matrix: Tensor) -> Tensor:
    """<A_i, B> (networks,) of A_i = mean_p a_ip a_ip^T, from gradients a (networks, inputs, D)."""
    products = vectors @ matrix * vectors
    by_input = products.sum(2)  # (networks, inputs)
    return by_input.mean(1)
