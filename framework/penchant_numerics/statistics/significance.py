"""Significance: one rule for every number that is compared with a null or with another number.

A difference is significant when its two-sided p-value is at most 1 %, after Holm's correction for
the number of comparisons in one table. The p-value comes from the null's own distribution where
that is known (permutations, draws), and from Student's t with the error's degrees of freedom
elsewhere; repetitions that are skewed have the larger p-value of two (`mean_p_value`). What cannot
be decided has no p-value. A z-score is the same p-value on the scale of a normal distribution:
t = 20 with one degree of freedom has p = 0.03 and so z = 2.1.

`tests/tools/significance_calibration.py` counts how often each rule is wrong where there is no
effect.
"""

import math
import statistics
from collections.abc import Sequence

LEVEL = 0.01  # chance of calling anything in a table significant where there is no effect
SMALLEST = 1e-300  # p-values below have underflowed, or soon will
# An exponential variable k spreads above its mean is k + 1 from its least value; a half less for
# the spread of few draws, which is too small by chance.
_EXPONENTIAL = 0.5
_MANY_ERRORS = 6.0  # standard errors of an effect that few experiments have

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
        The share of differences at least as large where there is no effect. None where that cannot
        be decided: without an error, and of repetitions that are all equal, whose spread of 0 says
        nothing about others (ten trainings without a rare event, accuracies at their ceiling).
        Exact tests of shares and counts are `statistics.share_p_value` and `count_p_value`.

    >>> round(p_value(2.576, 1.0), 4), round(p_value(63.66, 1.0, 1), 4), p_value(1.0, 0.0, 2)
    (0.01, 0.01, None)
    """
    if error is None:
        return None
    if difference == 0:
        return 1.0
    if error == 0:
        return 0.0 if df is None else None
    size = abs(difference / error)
    if df is None:
        return math.erfc(size / math.sqrt(2))
    from scipy import special

    return float(2 * special.stdtr(df, -size))


def sum_p_value(difference: float, terms: Sequence[ErrorTerm]) -> float | None:
    """The two-sided p-value of a difference whose error is the sum of independent ones.

    By Welch's t where all of them have the same degrees of freedom. Elsewhere Welch's test calls up
    to 8 % significant at 1 % (two repetitions against thirty), because the error of the few
    decides and is small by chance: at each level the point to exceed is the mean of those with each
    term's degrees of freedom, weighted by its share of the variance, and the p-value is the level
    whose point is the difference.

    Reference: Cochran and Cox, Experimental designs, 1950.

    >>> round(sum_p_value(5.0, [(1.0, 2), (1.0, None)]), 4)
    0.0378
    """
    error, df = combined_error(terms)
    known = [(own, freedom) for own, freedom in terms if own]
    if len({freedom for _, freedom in known}) <= 1:
        return p_value(difference, error, df)
    size = abs(difference) / error
    shares = [((own / error) ** 2, freedom) for own, freedom in known]
    # Bisection on the logarithm of the level: the point falls as the level rises.
    low, high = math.log(SMALLEST), 0.0
    if _point(math.exp(low), shares) <= size:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        if _point(math.exp(middle), shares) > size:
            low = middle
        else:
            high = middle
    return math.exp(high)


def _point(level: float, shares: Sequence[ErrorTerm]) -> float:
    """The two-sided point of Student's t at a level, averaged over degrees of freedom."""
    from scipy import special

    points = []
    for share, df in shares:
        point = special.ndtri(level / 2) if df is None else special.stdtrit(df, level / 2)
        # scipy gives the wrong sign to points beyond all numbers
        points.append(share * abs(float(point)))
    return sum(points)


def mean_p_value(
    values: Sequence[float], null: float, *, multiplicative: bool = False
) -> float | None:
    """The two-sided p-value of the mean of independent repetitions.

    By Student's t; and where repetitions are skewed that calls too many significant, so that a
    second test has to agree: of a lognormal mean where all repetitions and the null are positive,
    of the mean without its skewness where there are at least ten. Fewer than ten around a null of 0
    are taken as symmetric.

    Args:
        values: One number per repetition.
        null: Their mean without an effect.
        multiplicative: Whether an effect is a factor: Student's t on logarithms, of positive
            numbers, which tests their geometric mean.

    Returns:
        The larger p-value of the two; None with fewer than two repetitions, or where all are equal.

    >>> round(mean_p_value([2.0, 4.0, 3.0], 0.0), 3), mean_p_value([1.0, 1.0, 1.0], 0.5)
    (0.035, None)
    >>> mean_p_value([0.02, 0.03, 0.01], 1.0) > 0.01     # Student's t has 4e-5
    True
    """
    import numpy as np
    from penchant_numerics.statistics import skewed_means

    numbers = np.asarray(values, dtype=np.float64)
    count = len(numbers)
    if count < 2:
        return None
    if multiplicative:
        return mean_p_value(np.log(numbers / null).tolist(), 0.0)
    error = float(numbers.std(ddof=1)) / math.sqrt(count)
    p = p_value(float(numbers.mean()) - null, error, count - 1)
    if p is None:
        return None
    sign = math.copysign(1.0, null)
    second = None
    if null and (numbers * sign > 0).all():
        second = skewed_means.lognormal_p_value(numbers * sign, null * sign)
    elif count >= skewed_means.FEWEST_FOR_SKEWNESS:
        second = skewed_means.skewness_p_value(numbers - null)
    return p if second is None else max(p, second)


def few_draws_p_value(difference: float, error: float, df: float) -> float | None:
    """The two-sided p-value of a difference whose error is the spread of a few draws.

    The larger of Student's t, right for normal draws, and of the same for draws that are skewed
    like exponential ones, which t calls significant in 3 to 4 % at 1 %. Many draws are counted
    instead (`statistics.draws_p_value`).

    Args:
        difference: A number less the mean of the draws.
        error: The draws' standard deviation, with that of their mean.
        df: How many draws there are, less one.

    Returns:
        The share of differences at least as large where there is no effect; None where the error
        is unknown.

    >>> round(few_draws_p_value(6.0, 1.0, 19), 4), round(p_value(6.0, 1.0, 19), 5)
    (0.0037, 1e-05)
    """
    p = p_value(difference, error, df)
    if p is None or not error:
        return p
    size = abs(difference) / error + _EXPONENTIAL
    exponential = math.exp(-df * math.log1p(size / df))
    return min(max(p, exponential), 1.0)


def both_p_value(first: float | None, second: float | None) -> float | None:
    """The p-value of two tests that must agree: the larger; one that is unknown does not count.

    >>> both_p_value(0.01, 0.2), both_p_value(None, 0.2)
    (0.2, 0.2)
    """
    known = [p for p in (first, second) if p is not None]
    return max(known, default=None)


def smallest_effect(repetitions: int, comparisons: int = 1, level: float = LEVEL) -> float:
    """How many standard errors a mean must differ by to be significant.

    Args:
        repetitions: How many there are: trainings, seeds, networks.
        comparisons: How many differences are decided about together.
        level: Chance of calling anything in the table significant without an effect.

    Returns:
        The two-sided point of Student's t; infinite with fewer than two repetitions.

    >>> [round(smallest_effect(count), 1) for count in (1, 2, 3, 5, 30)]
    [inf, 63.7, 9.9, 4.6, 2.8]
    >>> round(smallest_effect(3, 20), 1)
    44.7
    """
    if repetitions < 2:
        return math.inf
    from scipy import special

    return float(-special.stdtrit(repetitions - 1, level / (2 * max(comparisons, 1))))


def could_see(repetitions: int, over: str, comparisons: int = 1) -> str:
    """What so few repetitions can show at all, in a sentence; empty where they show usual effects.

    Args:
        repetitions: How many there are.
        over: What they are: "trainings", "seeds".
        comparisons: How many differences are decided about together.

    Returns:
        The sentence.

    >>> could_see(3, "trainings")
    'With 3 trainings only effects beyond 9.9 standard errors can be significant.'
    >>> could_see(3, "trainings", 8)
    'With 3 trainings only effects beyond 28 standard errors can be significant (8 comparisons).'
    >>> could_see(1, "seeds"), could_see(30, "seeds")
    ('With 1 seed there is no error over seeds.', '')
    """
    size = smallest_effect(repetitions, comparisons)
    if size <= _MANY_ERRORS:
        return ""
    if repetitions < 2:
        return f"With {repetitions} {over.removesuffix('s')} there is no error over {over}."
    number = f"{size:.2g}" if size < 10 else f"{size:.0f}"
    among = f" ({comparisons} comparisons)" if comparisons > 1 else ""
    return (
        f"With {repetitions} {over} only effects beyond {number} standard errors can be "
        f"significant{among}."
    )


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


def is_significant(p: float | None) -> bool:
    """Is a single comparison significant?

    >>> is_significant(0.01), is_significant(0.011), is_significant(None)
    (True, False, False)
    """
    return any(significant([p]))


def significant(p_values: Sequence[float | None], level: float = LEVEL) -> list[bool]:
    """Which comparisons of one table are significant, by Holm's step-down rule.

    Args:
        p_values: One two-sided p-value per comparison; None where there is none to be had.
        level: Chance of calling anything in the table significant without an effect.

    Returns:
        One answer per comparison; those without a p-value are not significant and do not count.

    Reference: Holm, A simple sequentially rejective multiple test procedure, 1979.

    >>> significant([0.004, 0.03, None, 0.0001])
    [True, False, False, True]
    """
    known = [(p, index) for index, p in enumerate(p_values) if p is not None]
    answers = [False] * len(p_values)
    for rank, (p, index) in enumerate(sorted(known)):
        if p > level / (len(known) - rank):
            break
        answers[index] = True
    return answers
