"""Significance: one rule for every number that is compared with a null or with another number.

A difference is significant when its two-sided p-value is at most 1 %, after Holm's correction for
the number of comparisons in one table. The p-value comes from the null's own distribution where
that is known (permutations, draws), and from Student's t with the error's degrees of freedom
elsewhere. A z-score is the same p-value on the scale of a normal distribution: t = 20 with one
degree of freedom has p = 0.03 and so z = 2.1.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

LEVEL = 0.01  # chance of calling anything in a table significant where there is no effect
SMALLEST = 1e-300  # p-values below have underflowed, or soon will

# An error and its degrees of freedom; None where it is as good as known.
ErrorTerm = tuple[float, float | None]


def combined_error(terms: Sequence[ErrorTerm]) -> ErrorTerm:
    """Independent errors added in squares, with the degrees of freedom of the sum.

    Reference: Welch, The generalization of Student's problem when several different population
    variances are involved, 1947.

    >>> combined_error([(3.0, None), (4.0, None)])
    (5.0, None)
    >>> error, df = combined_error([(1.0, 4), (1.0, 4)])
    >>> round(error, 3), round(df, 6)
    (1.414, 8.0)
    """
    error = math.hypot(*(own for own, _ in terms))
    if not error:
        freedoms = [df for _, df in terms if df is not None]
        return error, min(freedoms, default=None)
    spread = sum((own / error) ** 4 / df for own, df in terms if df is not None)
    return error, (1 / spread if spread else None)


def p_value(difference: float, error: float | None, df: float | None = None) -> float | None:
    """The two-sided p-value of a difference; None where its error is unknown.

    Args:
        difference: A number less its null, or less another number.
        error: Standard error of the difference; 0 where both are exact.
        df: Degrees of freedom of the error; None where it is as good as known.

    Returns:
        The share of differences at least as large where there is no effect. Repetitions that are
        all equal have an error of 0 that says nothing about others: the sign test decides.

    >>> round(p_value(2.576, 1.0), 4), round(p_value(63.66, 1.0, 1), 4), p_value(1.0, 0.0, 2)
    (0.01, 0.01, 0.25)
    """
    if error is None:
        return None
    if difference == 0:
        return 1.0
    if error == 0:
        return 0.0 if df is None else 0.5**df
    size = abs(difference / error)
    if df is None:
        return math.erfc(size / math.sqrt(2))
    from scipy import special

    return float(2 * special.stdtr(df, -size))


def sum_p_value(difference: float, terms: Sequence[ErrorTerm]) -> float | None:
    """The two-sided p-value of a difference whose error is the sum of independent ones.

    By Welch's t where all of them have the same degrees of freedom. Elsewhere Welch's test calls up
    to 8 % significant at 1 % (two repetitions against thirty), because the error of the few
    decides and is small by chance: the p-value is the mean of those with each term's degrees of
    freedom, weighted by its share of the variance.

    Reference: Cochran and Cox, Experimental designs, 1950.

    >>> round(sum_p_value(5.0, [(1.0, 2), (1.0, None)]), 4)
    0.036
    """
    error, df = combined_error(terms)
    known = [(own, freedom) for own, freedom in terms if own]
    if len({freedom for _, freedom in known}) <= 1:
        return p_value(difference, error, df)
    total = 0.0
    for own, freedom in known:
        share = (own / error) ** 2
        total += share * (p_value(difference, error, freedom) or 0.0)
    return total


def z_score(p: float, difference: float) -> float:
    """The p-value as a z-score, with the sign of the difference.

    >>> round(z_score(0.01, -3.0), 3)
    -2.576
    """
    tail = max(p, SMALLEST) / 2
    size = -statistics.NormalDist().inv_cdf(tail)
    return math.copysign(size, difference)


def t_score(difference: float, error: float, df: float | None = None) -> float:
    """A difference in standard errors as the z-score with the same p-value, however small that is.

    Args:
        difference: A number less its null, or less another number.
        error: Standard error of the difference.
        df: Degrees of freedom of the error; None where it is as good as known.

    Returns:
        The z-score, with the sign of the difference.

    Reference: Wallace, Bounds on normal approximations to Student's and the chi-square
    distributions, 1959; used where the p-value underflows, and there right to a few parts in 1000.

    >>> t_score(300.0, 2.0), round(t_score(20.0, 1.0, 1), 1), round(t_score(800.0, 1.0, 300), 1)
    (150.0, 2.1, 47.9)
    """
    t = difference / error
    if df is None:
        return t
    p = p_value(difference, error, df)
    if p is not None and p > SMALLEST:
        return z_score(p, difference)
    shrunk = (8 * df + 1) / (8 * df + 3)
    return math.copysign(shrunk * math.sqrt(df * math.log1p(t * t / df)), t)


def significant(p_values: Sequence[float | None]) -> list[bool]:
    """Which comparisons of one table are significant, by Holm's step-down rule at 1 %.

    Args:
        p_values: One two-sided p-value per comparison; None where there is none to be had.

    Returns:
        One answer per comparison; those without a p-value are not significant and do not count.

    Reference: Holm, A simple sequentially rejective multiple test procedure, 1979.

    >>> significant([0.004, 0.03, None, 0.0001])
    [True, False, False, True]
    """
    known = [(p, index) for index, p in enumerate(p_values) if p is not None]
    answers = [False] * len(p_values)
    for rank, (p, index) in enumerate(sorted(known)):
        if p > LEVEL / (len(known) - rank):
            break
        answers[index] = True
    return answers
