r"""Similarity of representations from the Gram matrices of a batch, all pairs of layers at once.

- CKA: HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L)) with the unbiased estimator of HSIC over n samples,
  for K and L without their diagonals:

      (tr K L + 1'K1 1'L1 / ((n - 1)(n - 2)) - 2 / (n - 2) 1'K L1) / (n (n - 3))

  It needs the products of entries, of row sums and of sums only: all pairs of layers are three
  matrix products. Over minibatches each HSIC is averaged before the ratio is taken.
- Procrustes: \|X'Y\|_* / (\|X\| \|Y\|) of centred features, 1 - d^2/2 of the distance d that is
  left between them after the best rotation, each of norm 1.
- Neighbours: the share of the k nearest neighbours of a sample in one representation that are
  among the k nearest in the other, mean over samples; (k / (n - 1)) by chance.

References: Song et al., JMLR 2012, equation 5 (HSIC); Nguyen, Raghu and Kornblith, ICLR 2021
(minibatch CKA); Ding, Denain and Steinhardt, NeurIPS 2021 (Procrustes); Huh et al., ICML 2024
(mutual nearest neighbours).
"""

from __future__ import annotations

import torch
from torch import Tensor

MEASURES = ("cka", "procrustes", "neighbours")
FEWEST = 4  # samples that the unbiased estimator needs at least


def _check(K: Tensor, L: Tensor) -> int:
    """Samples of both; they must be the same ones, so at least as many."""
    if K.shape[-1] != L.shape[-1]:
        raise ValueError(
            "both representations must be of the same samples, "
            f"found {K.shape[-1]} and {L.shape[-1]} samples"
        )
    return K.shape[-1]


def without_diagonal(K: Tensor) -> Tensor:
    """A copy of Gram matrices (..., n, n) with zeros where a sample meets itself."""
    copy = K.clone()
    copy.diagonal(dim1=-2, dim2=-1).zero_()
    return copy


def hsic(K: Tensor, L: Tensor) -> Tensor:
    """Unbiased HSIC of all pairs: (l, m) of Gram matrices (l, n, n) and (m, n, n).

    >>> K = torch.eye(5, device="cpu")[None]
    >>> float(hsic(K, K))  # what is on the diagonal does not count
    0.0
    """
    K, L = without_diagonal(K), without_diagonal(L)
    n = _check(K, L)
    if n < FEWEST:
        raise ValueError(f"the unbiased estimator needs {FEWEST} samples, found {n}")
    same = K.flatten(1) @ L.flatten(1).T
    rows = K.sum(2) @ L.sum(2).T
    total = K.sum((1, 2))[:, None] * L.sum((1, 2))
    return (same + total / ((n - 1) * (n - 2)) - 2 * rows / (n - 2)) / (n * (n - 3))


def nearest(K: Tensor, k: int) -> Tensor:
    """Which samples are among the k nearest of each, (l, n, n), from Gram matrices."""
    n = K.shape[-1]
    if not 1 <= k < n:
        raise ValueError(f"neighbours must be at least 1 and below {n}, the samples, found {k}")
    squares = K.diagonal(dim1=-2, dim2=-1)
    distances = squares[:, :, None] + squares[:, None] - 2 * K
    distances.diagonal(dim1=-2, dim2=-1).fill_(torch.inf)
    chosen = distances.topk(k, dim=-1, largest=False).indices
    return torch.zeros_like(K).scatter_(-1, chosen, 1.0)


def shared_neighbours(N: Tensor, M: Tensor) -> Tensor:
    """Share of neighbours in common of all pairs, (l, m), from `nearest` of each."""
    n = _check(N, M)
    k = N[0].sum() / n
    return N.flatten(1) @ M.flatten(1).T / (n * k)


def roots(K: Tensor) -> list[Tensor]:
    """Factors A (n, r) of norm 1 with A A' in proportion to each Gram matrix (n, n), centred."""
    roots = []
    for each in K:
        values, vectors = torch.linalg.eigh(each)
        nonzero = values > values[-1] * len(each) * torch.finfo(torch.float32).eps
        scaled = vectors[:, nonzero] * values[nonzero].sqrt()
        roots.append(scaled / scaled.norm())
    return roots


def procrustes(A: list[Tensor], B: list[Tensor]) -> Tensor:
    """Procrustes similarity of all pairs (l, m), from `roots` of each."""
    rows = []
    for one in A:
        _check(one.T, B[0].T)
        rows.append(torch.stack([torch.linalg.svdvals(one.T @ other).sum() for other in B]))
    return torch.stack(rows)
