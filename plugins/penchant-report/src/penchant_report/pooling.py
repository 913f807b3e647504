"""Numbers pooled over seeds, and their differences.

Pooled over seeds, a quantity is the mean of its values. Every seed claims a standard error, and the
seeds themselves show a spread. As long as the spread is one that the claims allow, the error is the
larger of the two, with the degrees of freedom of both. Where it is not (F-test, 1 % point), the
claims are dropped: the error is that of the spread alone, with as many degrees of freedom as there
are seeds less one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import attrs
from penchant.results.quantities import Quantity
from penchant_numerics import significance
from penchant_numerics.differences import Difference, against_null, null_df


@attrs.frozen
class Pooled:
    """A quantity over seeds.

    Attributes:
        quantity: Mean, its error and its null.
        values: The value of each seed.
        overdispersed: The seeds differ by more than their errors allow.
        null_df: Degrees of freedom of the null's spread; None where it is as good as known.
    """

    quantity: Quantity
    values: tuple[float, ...] = ()
    overdispersed: bool = False
    null_df: float | None = attrs.field()

    @null_df.default
    def _draws_less_one(self) -> float | None:
        return null_df(self.quantity)

    @property
    def against_null(self) -> Difference | None:
        """The difference from the null; None without a null."""
        return against_null(self.quantity, self.null_df)


def pooled(quantities: Sequence[Quantity]) -> Pooled:
    """One quantity from those of several seeds; what is missing is left out.

    >>> together = pooled([Quantity(1.0, stderr=0.3), Quantity(1.2, stderr=0.3)])
    >>> print(together.quantity, together.overdispersed)
    1.10 ± 0.21 False
    """
    known = [quantity for quantity in quantities if not quantity.missing]
    if not known:
        return Pooled(Quantity(math.nan))
    values = tuple(quantity.value for quantity in known)
    count = len(values)
    if count == 1:
        return Pooled(known[0], values)

    # What the seeds claim, and what they show.
    claimed = _error_of_mean([(quantity.stderr, quantity.df) for quantity in known])
    shown = (statistics.stdev(values) / math.sqrt(count), count - 1.0)
    exact = shown[0] == 0 and all(quantity.exact for quantity in known)
    overdispersed = claimed is not None and _is_larger(shown, claimed)
    stderr: float | None
    # Without claims that hold, a few seeds are all there is to go by.
    if exact:
        stderr, df = None, None
    elif claimed is None or overdispersed:
        stderr, df = shown
    else:
        stderr = max(claimed[0], shown[0])
        df = None if claimed[1] is None else claimed[1] + shown[1]
    quantity = Quantity(
        statistics.fmean(values),
        stderr=stderr,
        over="seeds",
        count=count,
        df=df,
        unit=known[0].unit,
        exact=exact,
        p=_combined_p(known),
        **_pooled_null(known),
    )
    spread = _error_of_mean([(each.null_spread, null_df(each)) for each in known])
    return Pooled(quantity, values, overdispersed, spread[1] if spread else None)


def _error_of_mean(
    terms: Sequence[tuple[float | None, float | None]],
) -> significance.ErrorTerm | None:
    """The error of a mean over seeds, and its degrees of freedom; None where one is unknown.

    Seeds repeat one experiment, so that their errors are of one size and their degrees of freedom
    add up.
    """
    known = [error for error, _ in terms if error is not None]
    if len(known) < len(terms):
        return None
    freedoms = [df for _, df in terms if df is not None]
    # An error that is as good as known makes the mean's known.
    df = sum(freedoms) if len(freedoms) == len(terms) else None
    return math.hypot(*known) / len(known), df


def _is_larger(shown: tuple[float, float], claimed: significance.ErrorTerm) -> bool:
    """Do seeds differ by more than their errors allow?"""
    if shown[0] == 0:
        return False
    # An error of zero allows nothing.
    if claimed[0] == 0:
        return True
    from scipy import special

    ratio = (shown[0] / claimed[0]) ** 2
    if claimed[1] is None:
        p = special.chdtrc(shown[1], ratio * shown[1])
    else:
        p = special.fdtrc(shown[1], claimed[1], ratio)
    return bool(p < significance.LEVEL)


def _combined_p(quantities: Sequence[Quantity]) -> float | None:
    """One p-value from those of independent seeds; None where one of them has none.

    Reference: Stouffer et al., The American soldier, 1949.
    """
    total = 0.0
    for quantity in quantities:
        if quantity.p is None or quantity.null is None:
            return None
        total += significance.z_score(quantity.p, quantity.value - quantity.null)
    return significance.p_value(total, math.sqrt(len(quantities)))


def _pooled_null(quantities: Sequence[Quantity]) -> dict[str, float | None]:
    """The null of a mean: the mean of nulls, with a spread that is smaller by as much."""
    nulls = [quantity.null for quantity in quantities]
    known = [null for null in nulls if null is not None]
    if len(known) < len(nulls):
        return {"null": None}
    spread = _error_of_mean([(quantity.null_spread, None) for quantity in quantities])
    stderr = _error_of_mean([(quantity.null_stderr, None) for quantity in quantities])
    return {
        "null": statistics.fmean(known),
        "null_spread": spread[0] if spread else None,
        "null_stderr": stderr[0] if stderr else None,
    }


def difference(first: Pooled, second: Pooled) -> Difference | None:
    """Second less first, of two independent numbers; None where one is missing."""
    one = first.quantity
    other = second.quantity
    if one.missing or other.missing:
        return None
    value = other.value - one.value
    terms = []
    for each in (one, other):
        error = 0.0 if each.exact else each.stderr
        if error is None:
            return Difference(value, None)
        terms.append((error, each.df))
    error, df = significance.combined_error(terms)
    return Difference(value, error, df, significance.sum_p_value(value, terms))


def paired_difference(
    first: Sequence[Quantity], second: Sequence[Quantity], *, fewest: int = 3
) -> Difference | None:
    """Second less first, pair by pair: what both members of a pair share does not count.

    Args:
        first: A quantity, seed by seed.
        second: The same quantity elsewhere, of the same seeds in the same order.
        fewest: Pairs from which on the spread of their differences is the error; of fewer, the
            errors that the numbers claim.

    Returns:
        The mean difference; None where no pair is whole.
    """
    pairs = []
    for one, other in zip(first, second, strict=True):
        if not one.missing and not other.missing:
            pairs.append((one, other))
    count = len(pairs)
    if not pairs:
        return None
    # Too few to have a spread.
    if count < fewest:
        left, right = zip(*pairs)
        return difference(pooled(left), pooled(right))
    apart = [other.value - one.value for one, other in pairs]
    mean = statistics.fmean(apart)
    error = statistics.stdev(apart) / math.sqrt(count)
    exact = error == 0 and all(one.exact and other.exact for one, other in pairs)
    return Difference(mean, error, None if exact else count - 1)
