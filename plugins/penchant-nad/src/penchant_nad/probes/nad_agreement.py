"""The probe `nad-agreement`: do two estimators of the role `directions` find the same ones?

Each has networks of its own, in groups: products of moments from different groups are unbiased,
where the plain norm of a sampled second moment is too large; leaving a group out tells the standard
errors.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import penchant
import torch
from penchant_numerics.answers import Directions
from penchant_numerics.correlation import (
    corr_of_means,
    rotated,
    rotated_corr_of_means,
    unbiased_square,
)
from penchant_numerics.moments import descending_eigh
from penchant_numerics.spectra import nested_overlaps
from penchant_numerics.statistics import jackknife
from torch import Tensor

from penchant_nad.declarations.directions import NadAgreement
from penchant_nad.numerics.random_subspaces import mean_overlap_spread, overlap_spreads


class Pair(NamedTuple):
    """Moments (groups, D, D) of both estimators, and how many directions of them mean anything."""

    first: Tensor
    second: Tensor
    rank: int

    def without(self, group: int) -> Pair:
        """The other groups."""
        keep = [number for number in range(len(self.first)) if number != group]
        return self._replace(first=self.first[keep], second=self.second[keep])

    def overlap(self) -> Tensor:
        """Overlap (rank,) of the first k directions of both mean moments."""
        _, first = descending_eigh(self.first.mean(0))
        _, second = descending_eigh(self.second.mean(0))
        return nested_overlaps(first, second)[: self.rank]


def run(options: NadAgreement, context: penchant.Context) -> penchant.Result:
    """Estimate both moments group by group and compare them."""
    estimators = context.estimators("directions")
    if len(estimators) != 2:
        found = f"found {len(estimators)}"
        raise penchant.Error(
            f"nad-agreement compares two estimators of the role directions, {found}"
        )
    size = math.prod(context.architecture.shape)
    count = math.ceil(options.networks / options.groups)
    moments, one_vector_each = [], False
    for number in range(2):
        answers = [_moment(options, context, number, group) for group in range(options.groups)]
        moments.append(torch.stack([answer.matrix for answer in answers]))
        norms = [answer.squared_norms for answer in answers]
        one_vector_each = one_vector_each or any(each is not None for each in norms)

    drawn = count * options.groups
    rank = min(size, drawn) if one_vector_each else size
    if rank < size:
        counts = f"{drawn} networks for {size} inputs"
        context.warn(f"{counts}: only the first {rank} directions mean anything")
    labels = tuple(estimator.label for estimator in estimators)
    result = _compared(Pair(*moments, rank), labels)
    if result.quantities["corr"].missing:
        context.warn(
            f"{drawn} networks show too little to correlate: an unbiased squared norm is not "
            "positive; draw more"
        )
    return result


def _moment(
    options: NadAgreement, context: penchant.Context, number: int, group: int
) -> Directions:
    """The moment over networks that no other group of either estimator has."""
    count = math.ceil(options.networks / options.groups)
    own = context.scope(first=(number * options.groups + group) * count)
    found: Directions = own.estimators("directions")[number](networks=count)
    if found.matrix is None:
        raise penchant.Error(
            "nad-agreement needs estimators that give the whole matrix, found leading pairs only"
        )
    return found


def _compared(pair: Pair, labels: tuple[str, ...]) -> penchant.Result:
    groups, size = len(pair.first), pair.first.shape[-1]
    curve = pair.overlap()
    left_out = [pair.without(group) for group in range(groups)]
    curves = torch.stack([other.overlap() for other in left_out])
    corrs = [corr_of_means(other.first, other.second) for other in left_out]
    value = corr_of_means(pair.first, pair.second)
    networks = {"over": "networks (jackknife over groups)", "count": groups}
    quantities = {
        "corr": penchant.Quantity(
            value,
            stderr=known(jackknife(corrs)),
            null=known(float(rotated_corr_of_means(pair.first, pair.second))),
            null_spread=_rotated_spread(pair),
            **networks,
        ),
        "mean-overlap": penchant.Quantity(
            curve.mean(),
            stderr=jackknife(curves.mean(1)),
            null=(pair.rank + 1) / (2 * size),
            null_spread=mean_overlap_spread(pair.rank, size),
            **networks,
        ),
    }
    values = [descending_eigh(moments.mean(0))[0] for moments in (pair.first, pair.second)]
    arrays = {
        "overlap": curve,
        "overlap-stderr": jackknife(curves),
        "overlap-null": torch.arange(1, pair.rank + 1, device="cpu", dtype=torch.float64) / size,
        "overlap-null-spread": overlap_spreads(pair.rank, size),
        "eigenvalues": torch.stack(values),
    }
    conventions = {
        "estimators": " and ".join(labels),
        "networks": "each estimator and group has its own",
    }
    return penchant.Result(
        quantities,
        arrays,
        conventions=conventions,
        labels={"estimators": labels},
        missing=("corr",) if math.isnan(value) else (),
    )


def known(number: float | None) -> float | None:
    """A number, or None where it is not one."""
    return None if number is None or math.isnan(number) else number


def _rotated_spread(pair: Pair) -> float | None:
    """How far the correlation is from its null where one moment is rotated at random."""
    found = rotated(
        float(pair.first.mean(0).trace()),
        float(pair.second.mean(0).trace()),
        float(unbiased_square(pair.first)),
        float(unbiased_square(pair.second)),
        pair.first.shape[-1],
    )
    return known(found.null_spread)
