"""The standard error of a statistic of independent groups whose linear term may vanish.

Two equal matrices have the largest cosine there is, so to first order it does not move with either
of them: what is left are products of two groups at a time. The plain jackknife takes each product
for the doing of both its groups and so counts it twice, and more with few groups: its error of a
cosine of 1 is sqrt(3) times too large with four groups. Leaving out two groups shows the products
by themselves (Efron and Stein, The jackknife estimate of variance, 1981).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from penchant_numerics import Refusal

Array = NDArray[np.float64]
# Takes which groups are used, 1 or 0, (..., groups); returns values (...).
Statistic = Callable[[Array], Array]


class VarianceTerms(NamedTuple):
    """Estimates of the variance by single groups, and by pairs of groups.

    Both are unbiased for polynomials of second degree, so the first may be below 0.
    """

    single: float
    pairs: float

    @property
    def stderr(self) -> float:
        """The root of their sum, single groups not below 0; NaN where they are not numbers."""
        single = self.single if self.single > 0 or math.isnan(self.single) else 0.0
        return math.sqrt(single + self.pairs)


def second_order_jackknife(statistic: Statistic, groups: int) -> VarianceTerms:
    """The variance of a statistic of independent groups.

    With G groups, L the variance of what single groups do and I that of what pairs do,

        Var s = L + I,  E (jackknife) = L + 2 (G - 1) / (G - 2) I.

    Args:
        statistic: Takes which groups are used.
        groups: How many there are, at least four: leaving out two must leave two.

    Returns:
        L and I.
    """
    if groups < 4:
        raise Refusal(f"expected at least 4 groups, found {groups}")
    without_one = 1 - np.eye(groups)
    pairs = _pairs(statistic(without_one[:, None] * without_one))
    # leaving out one group, which counts pairs too often
    squares = (groups - 1) ** 2 / groups * statistic(without_one).var(ddof=1)
    often = 2 * (groups - 1) / (groups - 2)
    return VarianceTerms(float(squares - often * pairs), pairs)


def _pairs(left_out: Array) -> float:
    """The variance of products of two groups in a mean over all of them.

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
