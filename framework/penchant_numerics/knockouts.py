"""Knockouts: what is left of an operator without a low-rank part.

Subtraction takes B = V V^T away, A - B; projection takes its range away, (I - B B^+) A (I - B B^+). Reference: Papyan, Traces of
Class/Cross-Class Structure Pervade Deep Learning Spectra, JMLR 2020, section 3.
"""

from __future__ import annotations

import torch
from penchant_numerics.operators import Factor, LowRank, Operator, Scaled, Sum
from torch import Tensor


def subtraction_knockout(A: Operator, V: Tensor) -> Operator:
    """A - V V^T for columns V (size, r)."""
    return Sum([A, Scaled(LowRank(V), -1.0)])


def deflate(A: Operator, values: Tensor, vectors: Tensor) -> Operator:
    """A - X diag(values) X^T: eigenpairs with columns X (size, r) become zeros, every other pair stays.

    >>> from penchant_numerics.operators import Dense
    >>> A = Dense(torch.diag(torch.tensor([3.0, 1.0], device="cpu")))
    >>> deflate(A, torch.tensor([3.0], device="cpu"), torch.tensor([[1.0], [0.0]], device="cpu")).dense().tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """
    return Sum([A, LowRank(vectors, -values.to(vectors.dtype))])


class ProjectionKnockout(Operator):
    """(I - B B^+) A (I - B B^+) for a B whose range is spanned by the columns V (size, r), which may be dependent."""

    def __init__(self, A: Operator, V: Tensor) -> None:
        super().__init__(A.size, device=A.device, dtype=A.dtype)
        self.A, self.basis, self.conventions = A, range_basis(V), A.conventions

    @property
    def rank(self) -> int:
        """How many dimensions are knocked out."""
        return self.basis.shape[1]

    def outside(self, rows: Tensor) -> Tensor:
        """Rows (k, size) without their part in the range of B."""
        return rows - (rows @ self.basis) @ self.basis.T

    def _rows(self, rows: Tensor) -> Tensor:
        return self.outside(self.A.rows(self.outside(rows)))

    def factor(self) -> Factor | None:
        inner = self.A.factor()
        return None if inner is None else inner.changed(self.outside)


def range_basis(V: Tensor) -> Tensor:
    """Orthonormal columns (size, rank) that span those of V (size, r); the rank counts singular values above rounding.

    >>> range_basis(torch.tensor([[1.0, 2.0], [1.0, 2.0]], device="cpu")).shape
    torch.Size([2, 1])
    """
    Q, R = torch.linalg.qr(V)  # the tall side is seen once; what decides the rank is (r, r)
    U, singular, _ = torch.linalg.svd(R)
    tolerance = (
        max(V.shape) ** 0.5 * 8 * torch.finfo(V.dtype).eps
    )  # relative; sqrt because rounding errors add up at random
    rank = int((singular > tolerance * singular.max()).sum()) if singular.max() > 0 else 0
    return Q @ U[:, :rank]


def knock_out_matrix(A: Tensor, B: Tensor) -> Tensor:
    """(I - B B^+) A (I - B^+ B) for rectangular A and B (m, n): B's left and right singular vectors are projected out."""
    left, right = range_basis(B), range_basis(B.T)
    A = A - left @ (left.T @ A)
    return A - (A @ right) @ right.T
