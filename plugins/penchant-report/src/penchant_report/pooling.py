"""Numbers pooled over seeds, and their differences.

Pooled over seeds, a quantity is the mean of its values. Every seed claims a standard error, and the
seeds themselves show a spread. From three seeds on the spread decides, because claims that are half
as large as the truth cannot be told from right ones: as many degrees of freedom as there are seeds
less one. Two seeds have claims alone: the error is the larger of the two, unless the spread is one
that the claims do not allow (F-test, 1 % point).

What all seeds have in common is not in their spread. Where these are the samples (data of the
user's own), or seeds differ by far less than their errors allow (0.2 % point), these errors do not
fall with the number of seeds, and are added to the spread.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import attrs
from penchant.results.differences import Difference, against_null, null_df
from penchant.results.quantities import Quantity
from penchant_numerics.statistics import significance

FEWEST_SEEDS = 3  # from which on their spread decides
ALIKE = 0.002  # chance of a spread so small, below which seeds are not taken as independent
SAMPLES = ("sample", "sequence")  # what errors over the data are called


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
    def each(self) -> tuple[float, ...]:
        """The value of each seed; of a single one the value."""
        return self.values or (self.quantity.value,)

    @property
    def count(self) -> int:
        """How many seeds have a value."""
        return len(self.each)

    @property
    def against_null(self) -> Difference | None:
        """The difference from the null; None without a null."""
        return against_null(self.quantity, self.null_df)


def pooled(quantities: Sequence[Quantity], *, shared: bool = False) -> Pooled:
    """One quantity from those of several seeds; what is missing is left out.

    Args:
        quantities: The quantity of each seed.
        shared: Whether all seeds have the same samples.

    Returns:
        The mean. `over` says what seeds share.

    >>> together = pooled([Quantity(value, stderr=0.3) for value in (1.0, 1.2, 1.1)])
    >>> print(together.quantity, together.quantity.df, together.overdispersed)
    1.100 ± 0.058 2.0 False
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
    common = _common(known, claimed, shown, shared=shared)
    stderr: float | None
    if exact:
        stderr, df = None, None
    elif claimed is None or overdispersed or count >= FEWEST_SEEDS:
        stderr, df = shown
    else:
        stderr = max(claimed[0], shown[0])
        df = None if claimed[1] is None else claimed[1] + shown[1]
    over = "seeds"
    if common is not None and stderr is not None:
        over = f"seeds, and {known[0].over} that they share"
        # Of two seeds the claim contains what they share.
        others = [(stderr, df)] if count >= FEWEST_SEEDS or overdispersed else []
        stderr, df = significance.combined_error([common, *others])
    null = _pooled_null(known)
    quantity = Quantity(
        statistics.fmean(values),
        stderr=stderr,
        over=over,
        count=count,
        df=df,
        unit=known[0].unit,
        exact=exact,
        p=_p_value(known, null, shown, common),
        **null,
    )
    spread = _error_of_mean([(each.null_spread, null_df(each)) for each in known])
    return Pooled(quantity, values, overdispersed, spread[1] if spread else None)


def _common(
    quantities: Sequence[Quantity],
    claimed: significance.ErrorTerm | None,
    shown: tuple[float, float],
    *,
    shared: bool,
) -> significance.ErrorTerm | None:
    """The error of a mean over seeds that comes from what all of them share; None without one.

    An error over trainings and samples is taken in full: how much of it is of samples is unknown.
    So are errors of seeds that differ by less than these allow, such as those of one network.
    """
    if claimed is None or not claimed[0]:
        return None
    count = len(quantities)
    of_samples = shared and any(word in quantities[0].over for word in SAMPLES)
    chance_of_smaller = 1 - _chance_of_larger((shown[0] / claimed[0]) ** 2, shown, claimed)
    alike = count >= FEWEST_SEEDS and chance_of_smaller < ALIKE
    if not (of_samples or alike):
        return None
    return claimed[0] * math.sqrt(count), claimed[1]


def _p_value(
    quantities: Sequence[Quantity],
    null: dict[str, float | None],
    shown: significance.ErrorTerm,
    common: significance.ErrorTerm | None,
) -> float | None:
    """The p-value of the mean of seeds; None where its error and degrees of freedom give it.

    That of two seeds is combined from their own. From three on, the spread of the differences from
    their nulls decides, which also contains what nulls that were measured add; only where there is
    no spread, such as in perfect orders, are p-values of the seeds combined.
    """
    if len(quantities) < FEWEST_SEEDS or null["null"] is None:
        return _combined_p(quantities)
    apart = [each.value - (each.null or 0.0) for each in quantities]
    if common is not None:
        spread = significance.sum_p_value(statistics.fmean(apart), [shown, common])
    elif len({each.null for each in quantities}) == 1:
        spread = significance.mean_p_value([each.value for each in quantities], null["null"])
    else:
        spread = significance.mean_p_value(apart, 0.0)
    return _combined_p(quantities) if spread is None else spread


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
    ratio = (shown[0] / claimed[0]) ** 2
    return _chance_of_larger(ratio, shown, claimed) < significance.LEVEL


def _chance_of_larger(
    ratio: float, shown: tuple[float, float], claimed: significance.ErrorTerm
) -> float:
    """The chance of a larger ratio of two variances, if both errors are right."""
    from scipy import special

    if claimed[1] is None:
        return float(special.chdtrc(shown[1], ratio * shown[1]))
    return float(special.fdtrc(shown[1], claimed[1], ratio))


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


def nulls_differ(first: Pooled, second: Pooled) -> bool:
    """Do two numbers have nulls that are not the same? Then they differ without an effect."""
    one, other = first.quantity.null, second.quantity.null
    return one is not None and other is not None and not math.isclose(one, other, rel_tol=1e-9)


def effects_difference(first: Pooled, second: Pooled) -> Difference | None:
    """Second less first, each less its null; None where a number is missing.

    The error has that of both values and of both nulls.

    >>> one = pooled([Quantity(5.0, stderr=0.3, null=4.0, null_stderr=0.4)])
    >>> other = pooled([Quantity(9.0, stderr=0.3, null=8.0, null_stderr=0.4)])
    >>> print(effects_difference(one, other))
    0.00 ± 0.71
    """
    shifted = []
    for each in (first, second):
        quantity = each.quantity
        value = quantity.value - (quantity.null or 0.0)
        stderr, df, exact = quantity.stderr, quantity.df, quantity.exact
        if quantity.null_stderr and (exact or stderr is not None):
            own = (0.0 if exact or stderr is None else stderr, df)
            stderr, df = significance.combined_error([own, (quantity.null_stderr, each.null_df)])
            exact = False
        shifted.append(Pooled(Quantity(value, stderr=stderr, df=df, exact=exact)))
    return difference(*shifted)


def paired_difference(
    first: Sequence[Quantity], second: Sequence[Quantity], *, fewest: int = FEWEST_SEEDS
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
    if error == 0 and all(one.exact and other.exact for one, other in pairs):
        return Difference(mean, error)
    return Difference(mean, error, count - 1, significance.mean_p_value(apart, 0.0))
