"""Similarity of all layers of two networks, averaged over minibatches, and with each left out.

HSIC is averaged over minibatches before CKA's ratio is taken; Procrustes and neighbours are means
of their values in minibatches. A null shuffles the samples of the second network inside each
minibatch, for corresponding layers only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Generator, Tensor

from penchant_representations.representation_similarity import gram_similarity


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
            self._put("first", gram_similarity.hsic(K, K).diagonal())
            self._put("second", gram_similarity.hsic(L, L).diagonal())
            self._put("cka", gram_similarity.hsic(K, L))
            self._shuffle("cka", orders, lambda i, j, o: _hsic(K[i], L[j][o][:, o]))
        if "procrustes" in self.measures:
            A, B = gram_similarity.roots(K), gram_similarity.roots(L)
            self._put("procrustes", gram_similarity.procrustes(A, B))
            self._shuffle("procrustes", orders, lambda i, j, o: _nuclear(A[i], B[j][o]))
        if "neighbours" in self.measures:
            N = gram_similarity.nearest(K, self.neighbours)
            M = gram_similarity.nearest(L, self.neighbours)
            self._put("neighbours", gram_similarity.shared_neighbours(N, M))
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
    return gram_similarity.hsic(K[None], L[None])[0, 0]


def _nuclear(A: Tensor, B: Tensor) -> Tensor:
    return gram_similarity.procrustes([A], [B])[0, 0]


def _shared(N: Tensor, M: Tensor) -> Tensor:
    return gram_similarity.shared_neighbours(N[None], M[None])[0, 0]


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
