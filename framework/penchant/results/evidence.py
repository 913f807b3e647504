"""What numbers say: pooled over seeds, against their null, and against each other.

Pooled over seeds, a quantity is the mean of its values. Every seed claims a standard error, and the
seeds themselves show a spread. As long as the spread is one that the claims allow, the error is the
larger of the two. Where it is not (chi-square, 1 % point), the claims are set aside: the error is
that of the spread alone, with as many degrees of freedom as there are seeds less one.

A difference is called one when it is beyond the two-sided 1 % point, divided by the number of
differences that are looked at together (Bonferroni).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import attrs
from penchant.results.quantities import Quantity, rounded, short_error
from penchant_numerics import significance

LEVEL = 0.01  # chance of calling any of the differences of one table one, where there is none


@attrs.frozen
class Pooled:
    """A quantity over seeds.

    Attributes:
        quantity: Mean, its error and its null.
        values: The value of each seed.
        degrees: Degrees of freedom of the error; None where it is as good as known.
        restless: The seeds differ by more than their errors allow.
    """

    quantity: Quantity
    values: tuple[float, ...] = ()
    degrees: int | None = None
    restless: bool = False


@attrs.frozen
class Difference:
    """A difference with its error.

    Attributes:
        value: The difference.
        error: Its standard error: 0 where both numbers are exact, None where it is unknown.
        degrees: Degrees of freedom of the error; None where it is as good as known.
    """

    value: float
    error: float | None
    degrees: int | None = None

    @property
    def errors(self) -> float | None:
        """How many errors the difference is; None where there is no error to divide by."""
        if not self.error:
            return None
        return self.value / self.error

    def exceeds(self, looks: int = 1) -> bool:
        """Is it beyond its error, looking at so many differences together?"""
        if self.error is None or self.value == 0:
            return False
        if self.error == 0:
            return True
        limit = critical(looks, self.degrees)
        errors = abs(self.value / self.error)
        return errors > limit

    def __str__(self) -> str:
        text = rounded(self.value, self.error)
        if self.value > 0:
            text = f"+{text}"
        if self.error:
            error = short_error(self.error, self.value)
            text += f" ± {error}"
        # A minus sign, not a hyphen.
        if text.startswith("-"):
            text = text.replace("-", "−", 1)
        return text


def critical(looks: int, degrees: int | None = None) -> float:
    """How many errors a difference must be beyond, looking at so many of them together.

    Args:
        looks: How many differences are looked at.
        degrees: Degrees of freedom of the error; None where it is as good as known.

    Returns:
        The two-sided 1 % point, corrected for the number of looks.

    >>> round(critical(1), 2), round(critical(20), 2), round(critical(1, 4), 2)
    (2.58, 3.48, 4.6)
    """
    tail = LEVEL / (2 * max(1, looks))
    if degrees is None:
        normal = statistics.NormalDist()
        return normal.inv_cdf(1 - tail)
    from scipy.special import stdtrit

    point = stdtrit(degrees, tail)
    return float(-point)


def pooled(quantities: Sequence[Quantity]) -> Pooled:
    """One quantity from those of several seeds; what is missing is left out.

    >>> together = pooled([Quantity(1.0, stderr=0.3), Quantity(1.2, stderr=0.3)])
    >>> print(together.quantity, together.restless)
    1.10 ± 0.21 False
    """
    known = [quantity for quantity in quantities if not quantity.missing]
    if not known:
        return Pooled(Quantity(math.nan))
    values = tuple(quantity.value for quantity in known)
    if len(known) == 1:
        return Pooled(known[0], values)

    # What the seeds claim, and what they show.
    claimed = _claimed(known)
    shown = statistics.stdev(values) / math.sqrt(len(values))
    exact = shown == 0 and all(quantity.exact for quantity in known)
    restless = claimed is not None and _is_restless(known)
    # Without claims that hold, a few seeds are all there is to go by.
    degrees = None
    if claimed is None or restless:
        stderr = None if exact else shown
        degrees = len(values) - 1
    else:
        stderr = max(claimed, shown)
    quantity = Quantity(
        statistics.fmean(values),
        stderr=stderr,
        over="seeds",
        count=len(values),
        unit=known[0].unit,
        exact=exact,
        **_pooled_null(known),
    )
    return Pooled(quantity, values, None if exact else degrees, restless)


def _claimed(quantities: Sequence[Quantity]) -> float | None:
    """The error of the mean as each seed's own error has it; None where a seed has none."""
    errors = [quantity.stderr for quantity in quantities]
    return _error_of_mean(errors)


def _error_of_mean(errors: Sequence[float | None]) -> float | None:
    """Independent errors added in squares, over how many there are."""
    known = [error for error in errors if error is not None]
    count = len(known)
    if count < len(errors):
        return None
    total = math.hypot(*known)
    return total / count


def _is_restless(quantities: Sequence[Quantity]) -> bool:
    """Do seeds differ by more than their errors allow?"""
    from scipy.special import chdtri

    mean = statistics.fmean(quantity.value for quantity in quantities)
    total = 0.0
    for quantity in quantities:
        away = quantity.value - mean
        if away == 0:
            continue
        # An error of zero allows nothing.
        if not quantity.stderr:
            return True
        total += (away / quantity.stderr) ** 2
    limit = chdtri(len(quantities) - 1, LEVEL)
    return bool(total > limit)


def _pooled_null(quantities: Sequence[Quantity]) -> dict[str, float | None]:
    """The null of a mean: the mean of nulls, with a spread that is smaller by as much."""
    nulls = [quantity.null for quantity in quantities]
    known = [null for null in nulls if null is not None]
    if len(known) < len(nulls):
        return {"null": None}
    spreads = [quantity.null_spread for quantity in quantities]
    errors = [quantity.null_stderr for quantity in quantities]
    return {
        "null": statistics.fmean(known),
        "null_spread": _error_of_mean(spreads),
        "null_stderr": _error_of_mean(errors),
    }


def against_null(found: Pooled) -> Difference | None:
    """How far a number is from its value without an effect; None where there is no null.

    The yardstick is the larger of the null's spread and the value's own error, so that a difference
    has to exceed both.
    """
    quantity = found.quantity
    if quantity.null is None or quantity.missing:
        return None
    value = quantity.value - quantity.null

    own = _own_error(quantity)
    both = (quantity.null_spread, own)
    known = [part for part in both if part is not None]
    if not known:
        return Difference(value, None)
    # The null itself was measured, too.
    uncertain = quantity.null_stderr or 0.0
    yardstick = math.hypot(max(known), uncertain)
    return Difference(value, yardstick, found.degrees)


def null_p_value(quantity: Quantity) -> float | None:
    """The two-sided p-value of a number against its null; None where there is none to be had.

    The null's own distribution decides where it is known. Elsewhere it is Student's t: the
    yardstick is the larger of the null's spread and the value's error, with its degrees of freedom.
    """
    if quantity.null is None or quantity.missing:
        return None
    if quantity.p is not None:
        return quantity.p
    terms = [(own, quantity.df)] if (own := _own_error(quantity)) is not None else []
    if quantity.null_spread is not None:
        terms.append((quantity.null_spread, _null_df(quantity)))
    if not terms:
        return None
    mean_error = (quantity.null_stderr or 0.0, None)
    error, df = significance.combined_error([max(terms, key=lambda term: term[0]), mean_error])
    return significance.p_value(quantity.value - quantity.null, error, df)


def _null_df(quantity: Quantity) -> float | None:
    """Degrees of freedom of the null's spread: its draws less one; None where it is known."""
    if not quantity.null_spread or not quantity.null_stderr:
        return None
    draws = (quantity.null_spread / quantity.null_stderr) ** 2
    return max(draws - 1, 1.0)


def _own_error(quantity: Quantity) -> float | None:
    """Zero for a number that is exact; None where nobody knows."""
    if quantity.exact:
        return 0.0
    return quantity.stderr


def difference(first: Pooled, second: Pooled) -> Difference | None:
    """Second less first, of two independent numbers; None where one is missing."""
    one = first.quantity
    other = second.quantity
    if one.missing or other.missing:
        return None
    value = other.value - one.value
    errors = []
    for each in (one, other):
        error = _own_error(each)
        if error is None:
            return Difference(value, None)
        errors.append(error)
    # The error that is known worst decides how far a difference must go.
    degrees = [each.degrees for each in (first, second)]
    known = [each for each in degrees if each is not None]
    fewest = min(known, default=None)
    return Difference(value, math.hypot(*errors), fewest)


def paired_difference(
    first: Sequence[Quantity],
    second: Sequence[Quantity],
    *,
    fewest: int = 3,
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
    return Difference(mean, error, count - 1)
