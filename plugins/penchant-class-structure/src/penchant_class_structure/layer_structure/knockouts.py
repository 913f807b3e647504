"""Knockouts: what is left of a matrix A without the range of B, (I - B B^+) A (I - B^+ B).

Reference: Papyan, Traces of Class/Cross-Class Structure Pervade Deep Learning Spectra, JMLR 2020,
section 3.
"""

from __future__ import annotations

import torch
from torch import Tensor

_ROUNDINGS = 8  # relative size of singular values that are zero but for rounding, in roundings


def range_basis(V: Tensor) -> Tensor:
    """Orthonormal columns (size, rank) that span those of V (size, r).

    The rank counts singular values above rounding.

    >>> range_basis(torch.tensor([[1.0, 2.0], [1.0, 2.0]], device="cpu")).shape
    torch.Size([2, 1])
    """
    # the tall side is seen once; what decides the rank is (r, r)
    Q, R = torch.linalg.qr(V)
    U, singular, _ = torch.linalg.svd(R)
    largest = singular.max()
    if not largest > 0:
        empty: Tensor = Q[:, :0]
        return empty

    # a root, because rounding errors add up at random
    rounding = torch.finfo(V.dtype).eps
    tolerance = max(V.shape) ** 0.5 * _ROUNDINGS * rounding
    counted = singular > tolerance * largest
    rank = int(counted.sum())
    basis: Tensor = Q @ U[:, :rank]
    return basis


def knock_out_matrix(A: Tensor, B: Tensor) -> Tensor:
    """(I - B B^+) A (I - B^+ B) for rectangular A and B (m, n).

    B's left and right singular vectors are projected out.
    """
    left = range_basis(B)
    right = range_basis(B.T)
    # one side after the other
    A = A - left @ (left.T @ A)
    return A - (A @ right) @ right.T
