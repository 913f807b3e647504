"""In which order things come, training by training: a rank correlation with error, null and p.

Every training orders the same positions (frequencies, eigenvectors). The value is the mean over
trainings of Spearman's rank correlation of its numbers with the positions. Two neighbours that
change positions move a correlation of n by 12 / (n (n^2 - 1)), so what lies between is not seen:
this is the resolution that `mean_with_resolution` adds, without which trainings in perfect
order would be called certain. Under the null every training has its numbers in a random order of
its own.

What shards return, put together: rows of all trainings.

Means of numbers that are only known in steps.

A step of training is known up to the steps between two evaluations, a count to
one whole. Rounded to steps of width h, a number is off by up to h / 2, uniformly: a variance of
h^2 / 12. Where all numbers fall on one step their spread is 0, but their mean is not known better
than this.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import penchant
import torch
from penchant_numerics.statistics import Numbers, statistics
from torch import Generator, Tensor

PERMUTATIONS = 4999


class RankOrder(NamedTuple):
    """Mean rank correlation of trainings; under its null each of them is permuted."""

    value: float
    stderr: float | None
    over: str
    count: int  # type: ignore[assignment]  # hides the method of tuples
    df: int | None
    null: float | None
    null_spread: float | None
    null_stderr: float | None
    p: float | None

    def fields(self) -> dict[str, Any]:
        """The fields of a quantity: `Quantity(**order.fields())`."""
        return self._asdict()


def correlations(values: Tensor, positions: Tensor) -> Tensor | None:
    """The rank correlation of each training's values (trainings, positions) with the positions.

    None where some training has no ranks: fewer than three positions, NaN, or only equal values.
    """
    if len(positions) < 3 or bool(values.isnan().any()):
        return None
    if not all(statistics.varies(row) for row in values):
        return None
    return _standard_ranks(values) @ _standard_ranks(positions[None])[0]


def rank_order(values: Tensor, positions: Tensor, *, generator: Generator) -> RankOrder | None:
    """The mean over trainings of the rank correlation of their values with the positions.

    Args:
        values: Numbers (trainings, positions); equal ones share their mean rank.
        positions: What is ordered (positions,), all different.
        generator: A generator on the CPU, for the permutations.

    Returns:
        The order, or None where some training has no ranks: fewer than three positions, or only
        equal values. Of a single training error and p are those of a correlation of as many pairs,
        where p is exact up to nine; of several, p is at least 1 / (`PERMUTATIONS` + 1).
    """
    correlation = correlations(values, positions)
    if correlation is None:
        return None
    if len(values) == 1:
        single = statistics.rank_correlation(values[0], positions, generator=generator)
        return RankOrder(**single.fields(), over="positions", df=None)
    value, stderr = mean_with_resolution(correlation, smallest_step(len(positions)))
    draws = _permuted(values, positions, generator)
    return RankOrder(
        value=value,
        stderr=stderr,
        over="trainings",
        count=len(values),
        df=len(values) - 1,
        **statistics.null_of(draws, value=value),
    )


def smallest_step(count: int) -> float:
    """By how much a correlation of `count` pairs changes where two neighbours change positions."""
    return 12 / (count * (count**2 - 1))


def _permuted(values: Tensor, positions: Tensor, generator: Generator) -> Tensor:
    """Mean correlations (permutations,) of trainings whose values are permuted independently."""
    ranks = _standard_ranks(values)
    own = _standard_ranks(positions[None])[0]
    total = torch.zeros(PERMUTATIONS, device="cpu", dtype=torch.float64)
    for row in ranks:
        # a random order is that of random keys
        keys = torch.rand(PERMUTATIONS, len(row), generator=generator, device="cpu")
        total += row[keys.argsort(1)] @ own
    return total / len(ranks)


def _standard_ranks(values: Tensor) -> Tensor:
    """Ranks along rows, centred and of length 1: products of two are rank correlations."""
    from scipy import stats  # here, because it takes a second to load, which no shard needs

    on_host = values.detach().to("cpu", torch.float64)
    # equal numbers share their mean rank
    ranks = stats.rankdata(on_host.numpy(), axis=1)
    centred = ranks - ranks.mean(1, keepdims=True)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    return torch.as_tensor(centred / lengths, device="cpu")


def joined(shards: Sequence[Mapping[str, Any]], names: Iterable[str]) -> dict[str, Tensor]:
    """Arrays of shards, one after another along their first axis."""
    rows = {}
    for name in names:
        tensors = [_tensor(shard[name]) for shard in shards]
        rows[name] = torch.cat(tensors)
    return rows


def _tensor(value: Any) -> Tensor:
    """An array or a number of a shard; numbers stay in double precision."""
    array = np.asarray(value)
    return torch.as_tensor(array, device="cpu")


def order(values: Tensor, positions: Tensor, *, generator: Generator) -> penchant.Quantity:
    """The mean rank correlation of trainings with the positions; missing without ranks."""
    order = rank_order(values, positions, generator=generator)
    if order is None:
        undefined = float("nan")
        return penchant.Quantity(undefined, null=0.0)
    return penchant.Quantity(**order.fields())


def missing(quantities: Mapping[str, penchant.Quantity]) -> tuple[str, ...]:
    """Names of the quantities without a number."""
    names = []
    for name, quantity in quantities.items():
        if quantity.missing:
            names.append(name)
    return tuple(names)


def mean_with_resolution(values: Numbers, step: float) -> tuple[float, float | None]:
    """The mean of independent values, and its standard error, the resolution included.

    Args:
        values: Numbers of independent trainings.
        step: The width to which each is known.

    Returns:
        The mean, and sqrt((s^2 + step^2 / 12) / n), None with fewer than two values.

    >>> mean_with_resolution([80.0, 80.0, 80.0], 10.0)
    (80.0, 1.6666666666666667)
    """
    numbers = np.asarray(values, dtype=np.float64)
    count = len(numbers)
    mean = float(numbers.mean())
    if count < 2:
        return mean, None
    spread = float(numbers.var(ddof=1))
    # of a number that is uniform in its step
    rounding = step**2 / 12
    variance = (spread + rounding) / count
    return mean, math.sqrt(variance)
