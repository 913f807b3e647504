"""How much random nested subspaces overlap: k / D on average, and by how much that varies.

P_k and Q_k project on the first k directions of two bases, of which one is rotated at random. Over
the orthogonal group (Schur's lemma, `penchant_numerics.inputs.correlation`), with their traces
removed,

    E <P_j, R Q_j R^T> <P_k, R Q_k R^T> = (min(j, k) - j k / D)^2 / n,  n = (D - 1) (D + 2) / 2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def _covariances(rank: int, size: int) -> Tensor:
    """Covariances (rank, rank) of the overlaps of the first k directions, k = 1 .. rank."""
    # Projectors without their traces: what is common to two of them.
    k = torch.arange(1, rank + 1, device="cpu", dtype=torch.float64)
    common = torch.minimum(k[:, None], k) - k[:, None] * k / size
    freedom = max(1.0, (size - 1) * (size + 2) / 2)
    return common.square() / (k[:, None] * k) / freedom


def overlap_spreads(rank: int, size: int) -> Tensor:
    """Standard deviations (rank,) of the overlaps of random subspaces, k = 1 .. rank."""
    covariances = _covariances(rank, size)
    variances = covariances.diagonal()
    return variances.sqrt()


def mean_overlap_spread(rank: int, size: int) -> float:
    """The standard deviation of their mean over k."""
    covariances = _covariances(rank, size)
    variance = float(covariances.mean())
    return math.sqrt(variance)
