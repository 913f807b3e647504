r"""Similarity of all layers of two networks, averaged over minibatches, and with each left out.

HSIC is averaged over minibatches before CKA's ratio is taken; Procrustes and neighbours are means
of their values in minibatches. A null shuffles the samples of the second network inside each
minibatch, for corresponding layers only.

Similarity of representations from the Gram matrices of a batch, all pairs of layers at once.

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from penchant_numerics import Refusal
from torch import Generator, Tensor


@dataclass
class Comparison:
    """What minibatches say about layers of two networks; one entry per minibatch."""

    pairs: Sequence[tuple[int, int]]  # corresponding layers, for the null
    measures: Sequence[str]
    neighbours: int
    shuffles: int = 0
    tables: dict[str, list[np.ndarray]] = field(default_factory=dict)
    shuffled: dict[str, list[np.ndarray]] = field(default_factory=dict)  # (shuffles, pairs)

    def add(self, K: Tensor, L: Tensor, generator: Generator | None = None) -> None:
        """Add a minibatch: Gram matrices (l, n, n) and (m, n, n); the null with a generator."""
        orders = []
        if generator is not None:
            for _ in range(self.shuffles):
                order = torch.randperm(L.shape[-1], generator=generator, device="cpu")
                orders.append(order.to(L.device))
        if "cka" in self.measures:
            self._put("first", hsic(K, K).diagonal())
            self._put("second", hsic(L, L).diagonal())
            self._put("cka", hsic(K, L))
            self._shuffle("cka", orders, lambda i, j, o: _hsic(K[i], L[j][o][:, o]))
        if "procrustes" in self.measures:
            A, B = roots(K), roots(L)
            self._put("procrustes", procrustes(A, B))
            self._shuffle("procrustes", orders, lambda i, j, o: _nuclear(A[i], B[j][o]))
        if "neighbours" in self.measures:
            N = nearest(K, self.neighbours)
            M = nearest(L, self.neighbours)
            self._put("neighbours", shared_neighbours(N, M))
            self._shuffle("neighbours", orders, lambda i, j, o: _shared(N[i], M[j][o][:, o]))

    def _put(self, name: str, table: Tensor) -> None:
        self.tables.setdefault(name, []).append(table.double().cpu().numpy())

    def _shuffle(
        self, name: str, orders: list[Tensor], statistic: Callable[[int, int, Tensor], Tensor]
    ) -> None:
        """Values (shuffles, pairs) with the samples of the second network in other orders."""
        rows = [[float(statistic(i, j, order)) for i, j in self.pairs] for order in orders]
        self.shuffled.setdefault(name, []).append(np.array(rows))

    def similarity(self, name: str) -> np.ndarray:
        """Similarity of all pairs of layers (l, m)."""
        return self._similarity(name, slice(None))

    def replicates(self, name: str) -> np.ndarray:
        """The same with each minibatch left out, (minibatches, l, m)."""
        count = len(self.tables[name])
        rest = [[number for number in range(count) if number != out] for out in range(count)]
        return np.stack([self._similarity(name, chosen) for chosen in rest])

    def _similarity(self, name: str, chosen: slice | list[int]) -> np.ndarray:
        mean: np.ndarray = np.stack(self.tables[name])[chosen].mean(0)
        if name != "cka":
            return mean
        first = np.stack(self.tables["first"])[chosen].mean(0)
        second = np.stack(self.tables["second"])[chosen].mean(0)
        lengths = np.sqrt(np.maximum(first, 0))[:, None] * np.sqrt(np.maximum(second, 0))
        similarity: np.ndarray = np.full_like(mean, np.nan)
        np.divide(mean, lengths, out=similarity, where=lengths > 0)
        return similarity

    def null(self, name: str) -> np.ndarray:
        """Similarity of corresponding layers with shuffled samples, (shuffles, pairs)."""
        mean: np.ndarray = np.stack(self.shuffled[name]).mean(0)
        if name != "cka":
            return mean
        first = np.stack(self.tables["first"]).mean(0)
        second = np.stack(self.tables["second"]).mean(0)
        lengths = [np.sqrt(first[i] * second[j]) for i, j in self.pairs]
        scaled: np.ndarray = mean / np.array(lengths)
        return scaled


def _hsic(K: Tensor, L: Tensor) -> Tensor:
    return hsic(K[None], L[None])[0, 0]


def _nuclear(A: Tensor, B: Tensor) -> Tensor:
    return procrustes([A], [B])[0, 0]


def _shared(N: Tensor, M: Tensor) -> Tensor:
    return shared_neighbours(N[None], M[None])[0, 0]


def corresponding(first: int, second: int, *, itself: bool) -> list[tuple[int, int]]:
    """Pairs of layers of the same depth; in one network, a layer and the next.

    Args:
        first: Layers of the first network.
        second: Layers of the second.
        itself: Whether both are the same network.

    >>> corresponding(3, 5, itself=False), corresponding(3, 3, itself=True)
    ([(0, 0), (1, 2), (2, 4)], [(0, 1), (1, 2)])
    """
    if itself:
        return [(number, number + 1) for number in range(first - 1)]
    depth = max(first - 1, 1)
    # the last corresponds to the last
    return [
        (number, round(number / depth * (second - 1)) if first > 1 else second - 1)
        for number in range(first)
    ]


MEASURES = ("cka", "procrustes", "neighbours")
FEWEST = 4  # samples that the unbiased estimator needs at least


def _check(K: Tensor, L: Tensor) -> int:
    """Samples of both; they must be the same ones, so at least as many."""
    if K.shape[-1] != L.shape[-1]:
        raise Refusal(
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
        raise Refusal(f"the unbiased estimator needs {FEWEST} samples, found {n}")
    same = K.flatten(1) @ L.flatten(1).T
    rows = K.sum(2) @ L.sum(2).T
    total = K.sum((1, 2))[:, None] * L.sum((1, 2))
    return (same + total / ((n - 1) * (n - 2)) - 2 * rows / (n - 2)) / (n * (n - 3))


def nearest(K: Tensor, k: int) -> Tensor:
    """Which samples are among the k nearest of each, (l, n, n), from Gram matrices."""
    n = K.shape[-1]
    if not 1 <= k < n:
        raise Refusal(f"neighbours must be at least 1 and below {n}, the samples, found {k}")
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
