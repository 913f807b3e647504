"""In which order things come, training by training: a rank correlation with error and null.

Every training orders the same places (frequencies, eigenvectors). The value is the mean over
trainings of Spearman's rank correlation of its numbers with the places. Two neighbours that change
places move a correlation of n by 12 / (n (n^2 - 1)), so what lies between is not seen: this is the
resolution that `resolution.mean_and_stderr` adds, without which trainings in perfect order would be
called certain. Under the null the places are permuted, in the same way for all trainings.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from penchant_numerics import statistics
from torch import Generator, Tensor

from penchant_spectral_bias.numerics import resolution

PERMUTATIONS = 2000


class RankOrder(NamedTuple):
    """Mean rank correlation of trainings; its null is that of permuted places."""

    value: float
    stderr: float | None
    over: str
    count: int
    null: float
    null_spread: float
    null_stderr: float


def rank_order(
    values: Tensor,
    places: Tensor,
    *,
    generator: Generator,
) -> RankOrder | None:
    """The mean over trainings of the rank correlation of their values with the places.

    Args:
        values: Numbers (trainings, places); equal ones share their mean rank.
        places: What is ordered (places,), all different.
        generator: A generator on the CPU, for the permutations.

    Returns:
        The order, or None where some training has no ranks: fewer than three places, or only equal
        values. The error of a single training is that of a correlation of so many pairs.
    """
    count = len(places)
    if count < 3 or not all(statistics.varies(row) for row in values):
        return None
    ranked = [_standard_ranks(row) for row in values]
    standard = torch.stack(ranked)
    wanted = _standard_ranks(places)
    correlations = standard @ wanted

    # a random order is that of random keys
    keys = torch.rand(PERMUTATIONS, count, generator=generator, device="cpu")
    null = wanted[keys.argsort(1)] @ standard.mean(0)
    spread = float(null.std())
    if len(values) > 1:
        over = "trainings"
        step = 12 / (count * (count**2 - 1))
        value, stderr = resolution.mean_and_stderr(correlations, step)
    else:
        over = "places"
        found = statistics.rank_correlation(values[0], places, generator=generator)
        value, stderr = float(correlations[0]), found.stderr
    return RankOrder(
        value=value,
        stderr=stderr,
        over=over,
        count=len(values) if len(values) > 1 else count,
        null=float(null.mean()),
        null_spread=spread,
        null_stderr=spread / math.sqrt(PERMUTATIONS),
    )


def _standard_ranks(values: Tensor) -> Tensor:
    """Ranks, centred and of length 1, so that products of two are rank correlations."""
    from scipy import stats  # here, because it takes a second to load, which no shard needs

    on_host = values.detach().to("cpu", torch.float64)
    # equal numbers share their mean rank
    ranks = stats.rankdata(on_host.numpy())
    centred = ranks - ranks.mean()
    length = np.linalg.norm(centred)
    return torch.as_tensor(centred / length, device="cpu")
