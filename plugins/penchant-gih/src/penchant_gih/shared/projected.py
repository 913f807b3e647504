"""G S G from independent groups of G.

A product of sampled matrices is biased: with T networks of an isotropic architecture,
E[G^2] = c^2 (1 + D/T) I. So G S G is estimated by products of different groups, and its squared
norm by products of four different groups.

Inner products of geometries that are known by their gradients: no matrix is formed.
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import torch
from penchant_numerics.inputs import Corr, distinct_mean, jackknifed
from penchant_numerics.inputs.correlation import cosine
from penchant_numerics.statistics import statistics
from torch import Tensor

from penchant_gih.shared.containment import inner_products


class Projected:
    """W_ij = (G_i S G_j + G_j S G_i) / 2 for all pairs of groups, and their inner products.

    Args:
        groups: G of independent groups, (groups, D, D).
        S: The second moment of the data, (D, D).
    """

    def __init__(self, groups: Tensor, S: Tensor) -> None:
        right = [S @ group for group in groups]
        # G_i S G_j of different groups: their noise is independent.
        self.count = len(groups)
        numbers = range(self.count)
        self.pairs = list(combinations(numbers, 2))
        self.products = []
        for i, j in self.pairs:
            product = groups[i] @ right[j]
            self.products.append((product + product.T) / 2)
        self.table = inner_products(self.products)
        self.trace = float(self.matrix().trace())

    def matrix(self, chosen: Sequence[int] | None = None) -> Tensor:
        """G S G, from all pairs of different groups among `chosen`."""
        numbers = self._chosen(chosen)
        total = torch.zeros_like(self.products[0])
        for number in numbers:
            total += self.products[number]
        return total / len(numbers)

    def squared_norm(self, chosen: Sequence[int] | None = None) -> float:
        """|G S G|^2 from quadruples of different groups among `chosen`."""
        # Four different groups: no noise is met twice.
        disjoint = []
        for a, b in combinations(self._chosen(chosen), 2):
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
        return torch.tensor(rows, dtype=torch.float64, device="cpu")

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

        Products are of three different groups. The standard error is the smaller of two, which are
        both too large: the jackknife's where the noise of A and of G S G is the same, as for linear
        networks whose Corr is near 1 and whose value has lost that noise with its bias (up to six
        times), and `corrected_stderr` where networks are few. The smaller one is at most 2.4 times
        the spread (`test_gih_errors.py`).

        Args:
            against: <A_p, W_ij> (groups, pairs).
            table: <A_p, A_q> (groups, groups).
        """

        def statistic(chosen: list[int]) -> float:
            values = []
            for pair in self._chosen(chosen):
                own = self.pairs[pair]
                others = [group for group in chosen if group not in own]
                values += [float(against[group, pair]) for group in others]
            # A_p is never multiplied with its own group of G.
            product = sum(values) / len(values)
            norm = distinct_mean(table, chosen)
            return cosine(product, norm, self.squared_norm(chosen))

        corr = jackknifed(statistic, self.count)
        # Both errors are too large.
        other = corrected_stderr(statistic, self.count)
        return Corr(corr.value, min(corr.stderr, other))

    def corr(self, forms: Tensor, table: Tensor) -> Corr:
        """Corr(A, G S G) of A from other networks than G; the errors of both kinds add up.

        Args:
            forms: <A_i, W_jk> (groups of A, pairs).
            table: <A_i, A_j> (groups of A, groups of A).
        """

        def statistic(networks: list[int], groups: list[int]) -> float:
            pairs = self._chosen(groups)
            block = forms[networks][:, pairs]
            product = float(block.mean())
            norm = distinct_mean(table, networks)
            return cosine(product, norm, self.squared_norm(groups))

        # The two kinds of networks are independent: leave out one of either kind at a time.
        networks = list(range(len(forms)))
        groups = list(range(self.count))
        over_networks = jackknifed(lambda chosen: statistic(chosen, groups), len(networks))
        over_groups = jackknifed(lambda chosen: statistic(networks, chosen), len(groups))
        # Both biases are taken away.
        plain = statistic(networks, groups)
        value = over_networks.value + over_groups.value - plain
        stderr = math.hypot(over_networks.stderr, over_groups.stderr)
        return Corr(value, stderr)

    def _chosen(self, chosen: Sequence[int] | None) -> list[int]:
        """Numbers of the pairs whose groups are both chosen."""
        # A pair counts where both its groups do.
        if chosen is None:
            return list(range(len(self.pairs)))
        groups = set(chosen)
        return [number for number, pair in enumerate(self.pairs) if groups.issuperset(pair)]


def corrected_stderr(statistic: Callable[[list[int]], float], groups: int) -> float:
    """The standard error of a value whose bias was taken away, by a jackknife of such values.

    Args:
        statistic: Called with the indices of the groups to use.
        groups: Number of groups.

    Returns:
        The error; infinite where a value of fewer groups is missing.
    """

    def corrected(others: list[int]) -> float:
        def among(chosen: list[int]) -> float:
            groups = [others[each] for each in chosen]
            return statistic(groups)

        # The same correction, of one group fewer.
        return jackknifed(among, groups - 1).value

    everything = range(groups)
    replicates = []
    for left_out in everything:
        others = [group for group in everything if group != left_out]
        replicates.append(corrected(others))
    # Of few networks an unbiased norm may be negative.
    known = all(map(math.isfinite, replicates))
    if not known:
        return math.inf
    stderr = statistics.jackknife(replicates)
    assert stderr is not None  # there are several groups
    return stderr


def squared_products(first: Tensor, second: Tensor) -> Tensor:
    """<A_i, B_j> of A_i = mean_p a_ip a_ip^T and B_j alike.

    Args:
        first: Gradients a (networks, inputs, D).
        second: Gradients b (networks, inputs, D).

    Returns:
        The products (networks, networks).
    """
    pairs = first.shape[1] * second.shape[1]
    # <a a^T, b b^T> = (a.b)^2.
    products = torch.einsum("ipd,jqd->ijpq", first, second)
    return products.square().sum((2, 3)) / pairs


def quadratic_forms(vectors: Tensor, matrix: Tensor) -> Tensor:
    """<A_i, B> (networks,) of A_i = mean_p a_ip a_ip^T, from gradients a (networks, inputs, D)."""
    products = vectors @ matrix * vectors
    by_input = products.sum(2)  # (networks, inputs)
    return by_input.mean(1)
