"""The standard error of a statistic of two independent samples whose linear part may vanish.

Two equal matrices have the largest cosine there is, so to first order it does not move with either
of them: what is left are products of two groups at a time. The plain jackknife takes each product
for the doing of both its groups and so counts it twice, and more with few groups: its error of a
cosine of 1 is sqrt(3) times too large with four groups. Leaving out two groups shows the products
by themselves (Efron and Stein, The jackknife estimate of variance, 1981).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Takes which groups of A and of B are used, 1 or 0, (..., groups) each; returns values (...).
Statistic = Callable[[Array, Array], Array]


class VarianceParts(NamedTuple):
    """Estimates of the variance by single groups, by pairs within a sample, and by pairs across.

    All are unbiased for polynomials of second degree, so the first may be below 0.
    """

    single: float
    within: float
    across: float

    @property
    def stderr(self) -> float:
        """The root of their sum, single groups not below 0; NaN where they are not numbers."""
        single = self.single if self.single > 0 or math.isnan(self.single) else 0.0
        return math.sqrt(single + self.within + self.across)


def two_sample_jackknife(statistic: Statistic, groups: int) -> VarianceParts:
    """The variance of s(A, B), A and B of as many independent groups each.

    With G groups, L the variance of what single groups do, I_A, I_B and I_AB that of what pairs
    within A, within B and across do,

        Var s = L + I_A + I_B + I_AB,
        E (jackknife over A + jackknife over B) = L + 2 (G - 1) / (G - 2) (I_A + I_B) + 2 I_AB.

    Args:
        statistic: Takes which groups of A and of B are used.
        groups: How many groups each has, at least four: leaving out two must leave two.

    Returns:
        L, I_A + I_B and I_AB.
    """
    if groups < 4:
        raise ValueError(f"expected at least 4 groups, found {groups}")
    everything = np.ones(groups)
    without_one = 1 - np.eye(groups)
    without_two = without_one[:, None] * without_one  # (groups, groups, groups)

    def left_out(first: Array, second: Array) -> Array:
        return statistic(*np.broadcast_arrays(first, second))

    within = 0.0
    within += _pairs_within(left_out(without_two, everything))
    within += _pairs_within(left_out(everything, without_two))
    across = _pairs_across(left_out(without_one[:, None], without_one))

    # leaving out one group, which counts pairs too often
    one = np.stack([left_out(without_one, everything), left_out(everything, without_one)])
    squares = (groups - 1) ** 2 / groups * one.var(1, ddof=1).sum()
    often = 2 * (groups - 1) / (groups - 2)
    return VarianceParts(float(squares - often * within - 2 * across), within, across)


def _pairs_within(left_out: Array) -> float:
    """The variance of products of two groups of one sample in a mean over all of its pairs.

    Args:
        left_out: The statistic without groups i and j, (G, G); its diagonal does not count.

    Returns:
        2 s^2 / (G (G - 1)), s^2 the variance of one product: what is left of the values when the
        effects of single groups are taken away, with G (G - 3) / 2 degrees of freedom.
    """
    groups = len(left_out)
    pairs = groups * (groups - 1) / 2
    distinct = ~np.eye(groups, dtype=bool)
    values = np.where(distinct, left_out - left_out[distinct].mean(), 0.0)
    effects = values.sum(1)
    left = np.square(values).sum() / 2 - np.square(effects).sum() / (groups - 2)
    # one product among those that are left when two groups are gone
    scale = math.comb(groups - 2, 2)
    variance = scale**2 * left / (groups * (groups - 3) / 2)
    return max(float(variance), 0.0) / pairs  # rounding


def _pairs_across(left_out: Array) -> float:
    """The variance of products of a group of A and one of B in a mean over all of them.

    Args:
        left_out: The statistic without group i of A and group j of B, (G, G).

    Returns:
        s^2 / G^2, with (G - 1)^2 degrees of freedom.
    """
    groups = len(left_out)
    rows, columns = left_out.mean(1, keepdims=True), left_out.mean(0, keepdims=True)
    rest = left_out - rows - columns + left_out.mean()
    # one product among (G - 1)^2 that are left
    variance = (groups - 1) ** 4 * float(np.square(rest).sum()) / (groups - 1) ** 2
    return variance / groups**2
