"""Knockouts: what is left of an operator without a low-rank part.

Subtraction takes B = V V^T away: A - B, which is `A - LowRank(V)`. Projection takes its range away:
(I - B B^+) A (I - B B^+).

Reference: Papyan, Traces of Class/Cross-Class Structure Pervade Deep Learning Spectra, JMLR 2020,
section 3.
"""

from __future__ import annotations

import torch
from penchant_numerics.operators import Factor, LowRank, Operator, Sum
from torch import Tensor

_ROUNDINGS = 8  # relative size of singular values that are zero but for rounding, in roundings


def deflate(A: Operator, values: Tensor, vectors: Tensor) -> Operator:
    """A - X diag(values) X^T: eigenpairs become zeros, every other pair stays.

    Args:
        A: The operator.
        values: Eigenvalues (r,).
        vectors: Their eigenvectors, as columns X (size, r).

    Returns:
        The operator without them.

    >>> from penchant_numerics.operators import Dense
    >>> A = Dense(torch.diag(torch.tensor([3.0, 1.0], device="cpu")))
    >>> vectors = torch.tensor([[1.0], [0.0]], device="cpu")
    >>> deflate(A, torch.tensor([3.0], device="cpu"), vectors).dense().tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """
    scales = -values.to(vectors.dtype)
    part = LowRank(vectors, scales)
    return Sum([A, part])


class ProjectionKnockout(Operator):
    """(I - B B^+) A (I - B B^+), for a B whose range the columns V (size, r) span.

    The columns may be dependent.
    """

    def __init__(self, A: Operator, V: Tensor) -> None:
        super().__init__(A.size, device=A.device, dtype=A.dtype)
        self.A = A
        self.basis = range_basis(V)
        self.conventions = A.conventions

    @property
    def rank(self) -> int:
        """How many dimensions are knocked out."""
        return self.basis.shape[1]

    def outside(self, rows: Tensor) -> Tensor:
        """Rows (k, size) without their part in the range of B."""
        inner = rows @ self.basis
        return rows - inner @ self.basis.T

    def _rows(self, rows: Tensor) -> Tensor:
        projected = self.outside(rows)
        images = self.A.multiply_rows(projected)
        return self.outside(images)

    def factor(self) -> Factor | None:
        """The projected factor of A, where it has one."""
        inner = self.A.factor()
        if inner is None:
            return None
        return inner.changed(self.outside)


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
