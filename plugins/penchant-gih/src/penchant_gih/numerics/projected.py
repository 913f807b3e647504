"""G S G from independent parts of G.

A product of sampled matrices is biased: with T networks of an isotropic architecture,
E[G^2] = c^2 (1 + D/T) I. So G S G is estimated by products of different parts, and its squared norm
by products of four different parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import torch
from penchant_numerics import statistics
from penchant_numerics.correlation import Corr, cosine, distinct_mean, jackknifed
from torch import Tensor

from penchant_gih.numerics.containment import inner_products
from penchant_gih.numerics.sampled_products import quadratic_forms


class Projected:
    """W_ij = (G_i S G_j + G_j S G_i) / 2 for all pairs of parts, and their inner products.

    Args:
        parts: G of independent parts, (parts, D, D).
        S: The second moment of the data, (D, D).
    """

    def __init__(self, parts: Tensor, S: Tensor) -> None:
        right = [S @ part for part in parts]
        # G_i S G_j of different parts: their noise is independent.
        self.count = len(parts)
        numbers = range(self.count)
        self.pairs = list(combinations(numbers, 2))
        self.products = []
        for i, j in self.pairs:
            product = parts[i] @ right[j]
            self.products.append((product + product.T) / 2)
        self.table = inner_products(self.products)
        self.trace = float(self.matrix().trace())

    def matrix(self, keep: Sequence[int] | None = None) -> Tensor:
        """G S G, from all pairs of different parts among `keep`."""
        chosen = self._chosen(keep)
        total = torch.zeros_like(self.products[0])
        for number in chosen:
            total += self.products[number]
        return total / len(chosen)

    def squared_norm(self, keep: Sequence[int] | None = None) -> float:
        """|G S G|^2 from quadruples of different parts among `keep`."""
        # Four different parts: no noise is met twice.
        disjoint = []
        for a, b in combinations(self._chosen(keep), 2):
            first, second = self.pairs[a], self.pairs[b]
            if not set(first) & set(second):
                product = self.table[a, b]
                disjoint.append(float(product))
        return sum(disjoint) / len(disjoint)

    def against(self, matrices: Sequence[Tensor]) -> Tensor:
        """<A_p, W_ij> (matrices, pairs), in double precision on the CPU."""
        rows = []
        for matrix in matrices:
            rows.append([float((matrix * product).sum()) for product in self.products])
        return torch.tensor(
            rows,
            dtype=torch.float64,
            device="cpu",
        )

    def forms(self, vectors: Tensor) -> Tensor:
        """<A_i, W_jk> (networks, pairs) of A_i = mean_p a_ip a_ip^T, from a (networks, inputs, D).

        The networks must be others than those of G.
        """
        columns = []
        for product in self.products:
            column = quadratic_forms(vectors, product)
            columns.append(column.cpu())
        return torch.stack(columns, 1)

    def corr_of_same(self, against: Tensor, table: Tensor) -> Corr:
        """Corr(A, G S G) where A_p comes from the same networks as G_p, by the jackknife.

        Products are of three different parts. The standard error is the smaller of two, which are
        both too large: the jackknife's where the noise of A and of G S G is the same, as for linear
        networks whose Corr is near 1 and whose value has lost that noise with its bias (up to six
        times), and `corrected_stderr` where networks are few. The smaller one is at most 2.4 times
        the spread (`test_gih_errors.py`).

        Args:
            against: <A_p, W_ij> (parts, pairs).
            table: <A_p, A_q> (parts, parts).
        """

        def statistic(keep: list[int]) -> float:
            values = []
            for pair in self._chosen(keep):
                own = self.pairs[pair]
                others = [part for part in keep if part not in own]
                values += [float(against[part, pair]) for part in others]
            # A_p is never multiplied with its own part of G.
            product = sum(values) / len(values)
            norm = distinct_mean(table, keep)
            return cosine(product, norm, self.squared_norm(keep))

        corr = jackknifed(statistic, self.count)
        # Both errors are too large.
        other = corrected_stderr(statistic, self.count)
        return Corr(corr.value, min(corr.stderr, other))

    def corr(self, forms: Tensor, table: Tensor) -> Corr:
        """Corr(A, G S G) of A from other networks than G; the errors of both kinds add up.

        Args:
            forms: <A_i, W_jk> (parts of A, pairs).
            table: <A_i, A_j> (parts of A, parts of A).
        """

        def statistic(networks: list[int], parts: list[int]) -> float:
            pairs = self._chosen(parts)
            chosen = forms[networks][:, pairs]
            product = float(chosen.mean())
            norm = distinct_mean(table, networks)
            return cosine(product, norm, self.squared_norm(parts))

        # The two kinds of networks are independent: leave out one of either kind at a time.
        networks = list(range(len(forms)))
        parts = list(range(self.count))
        over_networks = jackknifed(lambda keep: statistic(keep, parts), len(networks))
        over_parts = jackknifed(lambda keep: statistic(networks, keep), len(parts))
        # Both biases are taken away.
        plain = statistic(networks, parts)
        value = over_networks.value + over_parts.value - plain
        stderr = math.hypot(over_networks.stderr, over_parts.stderr)
        return Corr(value, stderr)

    def _chosen(self, keep: Sequence[int] | None) -> list[int]:
        """Numbers of the pairs whose parts are both kept."""
        # A pair counts where both its parts do.
        if keep is None:
            return list(range(len(self.pairs)))
        kept = set(keep)
        return [number for number, pair in enumerate(self.pairs) if kept.issuperset(pair)]


def corrected_stderr(statistic: Callable[[list[int]], float], parts: int) -> float:
    """The standard error of a value whose bias was taken away, by a jackknife of such values.

    Args:
        statistic: Takes the numbers of the parts to use.
        parts: How many there are.

    Returns:
        The error; infinite where a value of fewer parts is missing.
    """

    def corrected(others: list[int]) -> float:
        def among(keep: list[int]) -> float:
            parts = [others[each] for each in keep]
            return statistic(parts)

        # The same correction, of one part fewer.
        return jackknifed(among, parts - 1).value

    everything = range(parts)
    replicates = []
    for left_out in everything:
        others = [part for part in everything if part != left_out]
        replicates.append(corrected(others))
    # Of few networks an unbiased norm may be negative.
    known = all(map(math.isfinite, replicates))
    if not known:
        return math.inf
    stderr = statistics.jackknife(replicates)
    assert stderr is not None  # there are several parts
    return stderr
