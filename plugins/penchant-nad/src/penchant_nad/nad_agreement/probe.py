"""The probe `nad-agreement`: do two estimators of the role `directions` find the same ones?

Each has networks of its own, in groups: products of moments from different groups are unbiased,
where the plain norm of a sampled second moment is too large; leaving groups out tells the standard
errors. A group also has its own random point at which derivatives are taken, the same for both
estimators, so that errors contain the choice of the point.

How much random nested subspaces overlap: k / D on average, and by how much that varies.

P_k and Q_k project on the first k directions of two bases, of which one is rotated at random. Over
the orthogonal group (Schur's lemma, `penchant_numerics.inputs.correlation`), with their traces
removed,

    E <P_j, R Q_j R^T> <P_k, R Q_k R^T> = (min(j, k) - j k / D)^2 / n,  n = (D - 1) (D + 2) / 2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import penchant
import torch
from penchant_numerics.inputs import rotated, rotated_corr_of_means, unbiased_square
from penchant_numerics.linear_algebra import descending_eigh, nested_overlaps
from penchant_numerics.roles import Directions, refuse_zero
from penchant_numerics.statistics import Repetitions, jackknife
from torch import Tensor

from penchant_nad.declarations.directions import NadAgreement
from penchant_nad.nad_agreement.second_order_jackknife import Statistic, second_order_jackknife


class Pair(NamedTuple):
    """Moments (groups, D, D) of both estimators, and how many directions of them mean anything."""

    first: Tensor
    second: Tensor
    rank: int

    def without(self, group: int) -> Pair:
        """The other groups."""
        others = list(range(len(self.first)))
        others.remove(group)
        return self._replace(first=self.first[others], second=self.second[others])

    def overlap(self) -> Tensor:
        """Overlap (rank,) of the first k directions of both mean moments."""
        _, first = descending_eigh(self.first.mean(0))
        _, second = descending_eigh(self.second.mean(0))
        return nested_overlaps(first, second)[: self.rank]

    def spectra(self) -> Tensor:
        """Eigenvalues (2, D) of both mean moments, descending."""
        first, _ = descending_eigh(self.first.mean(0))
        second, _ = descending_eigh(self.second.mean(0))
        return torch.stack([first, second])


def run(options: NadAgreement, context: penchant.Context) -> penchant.Result:
    """Estimate both moments group by group and compare them."""
    estimators = context.estimators("directions")
    if len(estimators) != 2:
        actual = f"found {len(estimators)}"
        raise penchant.Error(
            f"nad-agreement compares two estimators of the role directions, {actual}"
        )
    size = math.prod(context.architecture.shape)
    count = math.ceil(options.networks / options.groups)

    # The moment of every group of both estimators.
    moments: list[Tensor] = []
    one_vector_each = False
    for number in range(2):
        matrices = []
        for group in range(options.groups):
            answer = _moment(options, context, number, group)
            moment = answer.moment()
            assert moment is not None  # `_moment` refuses leading pairs
            matrices.append(moment)
            one_vector_each = one_vector_each or answer.squared_norms is not None
        of_groups = torch.stack(matrices)
        refuse_zero(of_groups, size)
        moments.append(of_groups)

    # With one vector per network there are no more directions than networks.
    networks = count * options.groups
    rank = min(size, networks) if one_vector_each else size
    if rank < size:
        counts = f"{networks} networks for {size} inputs"
        context.warn(f"{counts}: at most {rank} directions can be estimated")
    labels = tuple(estimator.label for estimator in estimators)
    first, second = moments
    result = _compared(Pair(first, second, rank), labels)
    if result.quantities["corr"].missing:
        context.warn(
            f"{networks} networks show too little to correlate: an unbiased squared norm is not "
            "positive; use more networks"
        )
    return result


def _moment(
    options: NadAgreement, context: penchant.Context, number: int, group: int
) -> Directions:
    """The moment over networks that no other group has, at the point of the group."""
    # Networks are numbered on: those of the first estimator, then those of the second.
    count = math.ceil(options.networks / options.groups)
    own = context.scope(group, first=(number * options.groups + group) * count)
    moment: Directions = own.estimators("directions")[number](networks=count)
    if moment.matrix is None and moment.rows is None:
        raise penchant.Error(
            "nad-agreement needs estimators that give the whole matrix, found leading pairs only"
        )
    return moment


def _compared(pair: Pair, labels: tuple[str, ...]) -> penchant.Result:
    groups, size = len(pair.first), pair.first.shape[-1]
    curve = pair.overlap()

    # Everything again, with one group left out at a time.
    left_out = [pair.without(group) for group in range(groups)]
    curves = torch.stack([other.overlap() for other in left_out])
    networks: Repetitions = {
        "over": "networks (jackknife over groups)",
        "count": groups,
        "df": groups - 1,
    }
    overlap = penchant.Quantity(
        curve.mean(),
        stderr=jackknife(curves.mean(1)),
        null=(pair.rank + 1) / (2 * size),
        null_spread=mean_overlap_spread(pair.rank, size),
        **networks,
    )
    corr = _corr(pair, networks)
    counts = torch.arange(1, pair.rank + 1, device="cpu", dtype=torch.float64)
    overlaps = penchant.Table(
        curve,
        {"k": range(1, pair.rank + 1)},
        stderr=jackknife(curves),
        null=counts / size,
        null_spread=overlap_spreads(pair.rank, size),
        **networks,
    )
    conventions = {
        "estimators": " and ".join(labels),
        "networks": "each estimator and group has its own",
        "points": "each group has its own, the same for both estimators",
    }
    return penchant.Result(
        {"corr": corr, "mean-overlap": overlap},
        {"eigenvalues": pair.spectra()},
        tables={"overlap": overlaps},
        conventions=conventions,
        labels={"estimators": labels},
        missing=("corr",) if corr.missing else (),
    )


def _corr(pair: Pair, networks: Repetitions) -> penchant.Quantity:
    """The correlation, which is not a number where an unbiased squared norm is not positive."""
    null = rotated_corr_of_means(pair.first, pair.second)
    corr, groups = _corr_of_groups(pair), len(pair.first)
    return penchant.Quantity(
        float(corr(np.ones(groups))),
        stderr=known(second_order_jackknife(corr, groups).stderr),
        null=known(float(null)),
        null_spread=_rotated_spread(pair),
        **networks,
    )


def _corr_of_groups(pair: Pair) -> Statistic:
    """The correlation from those groups that are used, by products of different groups.

    A group's two moments share its point, so that their product is no sample of the product of
    the means.
    """
    first, second = pair.first.flatten(1), pair.second.flatten(1)
    cross, own, others = (
        (rows @ columns.T).cpu().numpy()
        for rows, columns in ((first, second), (first, first), (second, second))
    )

    def corr(used: np.ndarray) -> np.ndarray:
        product, *squares = (_distinct_mean(table, used) for table in (cross, own, others))
        with np.errstate(invalid="ignore", divide="ignore"):
            cosine: np.ndarray = product / (np.sqrt(squares[0]) * np.sqrt(squares[1]))
        return cosine

    return corr


def _distinct_mean(table: np.ndarray, used: np.ndarray) -> np.ndarray:
    """The mean of products of different groups among those used, (..., groups)."""
    distinct = table - np.diag(table.diagonal())
    count = used.sum(-1)
    mean: np.ndarray = np.einsum("...i,ij,...j", used, distinct, used) / (count * (count - 1))
    return mean


def known(number: float | None) -> float | None:
    """A number, or None where it is not one."""
    if number is None or math.isnan(number):
        return None
    return number


def _rotated_spread(pair: Pair) -> float | None:
    """How far the correlation is from its null where one moment is rotated at random."""
    null = rotated(
        float(pair.first.mean(0).trace()),
        float(pair.second.mean(0).trace()),
        float(unbiased_square(pair.first)),
        float(unbiased_square(pair.second)),
        pair.first.shape[-1],
    )
    # A moment that is isotropic within its noise has no preferred rotation.
    return known(null.null_spread) or None


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
