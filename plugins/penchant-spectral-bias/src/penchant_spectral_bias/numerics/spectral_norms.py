"""Norms of layers, and what they say about how fast a network can vary."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def spectral_norms(weights: dict[str, Tensor], *, like: Tensor) -> Tensor:
    """Largest singular values (networks, layers) of stacked weights; a convolution counts as its (out, in x window) matrix.

    There may be no weights at all: `like` is any tensor with the networks along its first axis.
    """
    if not weights:
        return like.new_zeros(len(like), 0)
    return torch.stack(
        [torch.linalg.matrix_norm(each.flatten(2), ord=2) for each in weights.values()], dim=1
    )


def lipschitz_bounds(weights: Sequence[Tensor]) -> tuple[float, float]:
    """Two bounds on the Lipschitz constant of a chain of linear layers and ReLUs, the second never below the first.

    L <= prod |W_k| <= |theta|_inf^(L+1) sqrt(d d_out) prod d_k, with spectral norms and the widths d_k of hidden layers.
    Reference: Rahaman et al., proposition A.4.
    """
    product = math.prod(float(torch.linalg.matrix_norm(weight, ord=2)) for weight in weights)
    largest = max(float(weight.abs().max()) for weight in weights)
    sizes = math.prod(math.sqrt(weight.shape[0] * weight.shape[1]) for weight in weights)
    return product, largest ** len(weights) * sizes
