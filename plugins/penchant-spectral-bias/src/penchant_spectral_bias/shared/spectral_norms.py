"""Norms of layers, and what they say about how fast a network can vary."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def spectral_norms(weights: dict[str, Tensor], *, like: Tensor) -> Tensor:
    """Largest singular values (networks, layers) of stacked weights.

    A convolution counts as its (out, in x window) matrix.

    Args:
        weights: Weights (networks, ...) by name; there may be none at all.
        like: Any tensor with the networks along its first axis.
    """
    if not weights:
        return like.new_zeros(len(like), 0)
    norms = []
    for stacked in weights.values():
        # (networks, out, all of the rest)
        matrices = stacked.flatten(2)
        norms.append(torch.linalg.matrix_norm(matrices, ord=2))
    return torch.stack(norms, dim=1)


def lipschitz_bounds(weights: Sequence[Tensor]) -> tuple[float, float]:
    """Two bounds on the Lipschitz constant of a chain, the second never below the first.

    L <= prod |W_k| <= |theta|_inf^(L+1) sqrt(d d_out) prod d_k, with spectral norms and the widths
    d_k of hidden layers. Reference: Rahaman et al., proposition A.4.
    """
    product, sizes, largest = 1.0, 1.0, 0.0
    for weight in weights:
        norm = torch.linalg.matrix_norm(weight, ord=2)
        product *= float(norm)
        # |W| <= sqrt(rows x columns) times the largest entry
        sizes *= math.sqrt(weight.numel())
        entry = float(weight.abs().max())
        largest = max(largest, entry)
    max_norm = largest ** len(weights)
    return product, max_norm * sizes
