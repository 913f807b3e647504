"""G S G from independent parts of G.

A product of sampled matrices is biased: with T networks of an isotropic architecture, E[G^2] = c^2 (1 + D/T) I. So G S G is
estimated by products of different parts, and its squared norm by products of four different parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import torch
from penchant_numerics.moments import SecondMoment
from torch import Tensor

from penchant_gih._correlation import Estimate, cosine, distinct_mean, jackknife, quadratic_forms

PARTS = 6  # enough to leave one out and still have four different ones


class Projected:
    """W_ij = (G_i S G_j + G_j S G_i) / 2 for all pairs of different parts, and their inner products."""

    def __init__(self, parts: Sequence[SecondMoment], S: Tensor) -> None:
        moments = [part.matrix() for part in parts]
        right = [S @ moment for moment in moments]
        self.count = len(parts)
        self.pairs = list(combinations(range(len(parts)), 2))
        self.products = []
        for i, j in self.pairs:
            product = moments[i] @ right[j]
            self.products.append((product + product.T) / 2)
        self.table = torch.tensor(
            [[float((a * b).sum()) for b in self.products] for a in self.products],
            dtype=torch.float64,
            device="cpu",
        )
        self.trace = float(self.matrix().trace())

    def matrix(self) -> Tensor:
        """G S G, from all pairs of different parts."""
        total = torch.zeros_like(self.products[0])
        for product in self.products:
            total += product
        return total / len(self.products)

    def squared_norm(self, keep: Sequence[int] | None = None) -> float:
        """|G S G|^2 from quadruples of different parts among `keep`."""
        chosen = self._chosen(keep)
        disjoint = [
            float(self.table[a, b])
            for a, b in combinations(chosen, 2)
            if not set(self.pairs[a]) & set(self.pairs[b])
        ]
        return sum(disjoint) / len(disjoint)

    def against(self, matrices: Sequence[Tensor]) -> Tensor:
        """<A_p, W_ij> (parts, pairs)."""
        rows = [
            [float((matrix * product).sum()) for product in self.products] for matrix in matrices
        ]
        return torch.tensor(rows, dtype=torch.float64, device="cpu")

    def forms(self, vectors: Tensor) -> Tensor:
        """<A_i, W_jk> (networks, pairs) of A_i = mean_p a_ip a_ip^T, from a (networks, inputs, D), of other networks than G."""
        return torch.stack(
            [quadratic_forms(vectors, product).cpu() for product in self.products], 1
        )

    def corr(self, forms: Tensor, table: Tensor) -> Estimate:
        """Corr(A, G S G) of A from other networks: forms <A_i, W_jk>, table <A_i, A_j>. Errors of both kinds of networks add up."""

        def statistic(networks: list[int], parts: list[int]) -> float:
            product = float(forms[networks][:, self._chosen(parts)].mean())
            return cosine(product, distinct_mean(table, networks), self.squared_norm(parts))

        networks, parts = list(range(len(forms))), list(range(self.count))
        over_networks = jackknife(lambda keep: statistic(keep, parts), len(networks))
        over_parts = jackknife(lambda keep: statistic(networks, keep), len(parts))
        value = (
            over_networks.value + over_parts.value - statistic(networks, parts)
        )  # both biases taken away
        return Estimate(value, math.hypot(over_networks.stderr, over_parts.stderr))

    def mean_against(self, table: Tensor, keep: Sequence[int]) -> float:
        """Mean of <A_p, W_ij> over triples of different parts among `keep`, where A_p comes from the same networks as G_p."""
        values = [
            float(table[p, a]) for a in self._chosen(keep) for p in keep if p not in self.pairs[a]
        ]
        return sum(values) / len(values)

    def _chosen(self, keep: Sequence[int] | None) -> list[int]:
        return [
            number
            for number, pair in enumerate(self.pairs)
            if keep is None or set(pair) <= set(keep)
        ]
