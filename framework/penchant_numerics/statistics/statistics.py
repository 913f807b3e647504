"""Means, standard errors and nulls: every number of a result gets them here and nowhere else.

What each means, everywhere:

- `stderr`: the standard error of a value, how far it would move if everything were drawn again;
- `null`: the mean of the statistic where there is no effect;
- `null_spread`: its standard deviation there, which is what `value - null` is compared with;
- `null_stderr`: the standard error of `null` itself, `null_spread` / sqrt(draws).

What is unknown is None, never 0: one value has no standard error. Lists, numpy arrays and tensors
on any device are taken; floats, or numpy arrays in double precision, are given back.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NotRequired, TypeAlias, TypedDict, overload

import numpy as np
import torch
from numpy.typing import NDArray
from penchant_numerics.refusal import Refusal
from penchant_numerics.statistics import significance
from torch import Generator, Tensor

Array: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = Tensor | NDArray[Any] | Sequence[Any] | float
Value: TypeAlias = float | Array

# Of fewer draws of a null the spread decides.
FEWEST_DRAWS = 199
# The farthest draws, which tell how the tail falls.
_TAIL = 10
# Where few permutations might be significant, so many are taken, or so many pairs permuted.
_MOST_ORDERS = 19_999
_MOST_PERMUTED = 10_000_000
# Up to this many pairs a rank correlation is compared with all n! orders.
_ALL_ORDERS = 9


# ---- means and their errors


@overload
def mean_and_stderr(values: Sequence[float], axis: int = -1) -> tuple[float, float | None]: ...
@overload
def mean_and_stderr(values: Numbers, axis: int = -1) -> tuple[Value, Value | None]: ...
def mean_and_stderr(values: Numbers, axis: int = -1) -> tuple[Value, Value | None]:
    """The mean of independent values and its standard error.

    Args:
        values: Numbers, of which those along `axis` are independent draws of one thing.
        axis: The axis over which the mean is taken.

    Returns:
        The mean, and its standard error or None where there are fewer than two values; floats
        if `axis` is the only axis, else arrays.

    >>> mean_and_stderr([1.0, 3.0])
    (2.0, 1.0)
    >>> mean_and_stderr([1.0])
    (1.0, None)
    """
    numbers = _numbers(values)
    count = _count(numbers, axis)
    mean = numbers.mean(axis)
    if count < 2:
        return _plain(mean), None
    spread = numbers.std(axis, ddof=1)
    stderr = spread / math.sqrt(count)
    return _plain(mean), _plain(stderr)


def geometric_mean_and_stderr(values: Numbers) -> tuple[float, float | None]:
    """The geometric mean of independent positive values, and its standard error to first order.

    Args:
        values: Positive numbers, an effect on which is a factor.

    Returns:
        The mean, and its standard error or None where there are fewer than two values.

    >>> mean, stderr = geometric_mean_and_stderr([1.0, 4.0])
    >>> round(mean, 3), round(stderr, 3)
    (2.0, 1.386)
    """
    numbers = _numbers(values).ravel()
    if not (numbers > 0).all():
        least = float(numbers.min())
        raise Refusal(f"a geometric mean is of positive numbers, found {least}")
    mean, stderr = mean_and_stderr(np.log(numbers).tolist())
    return math.exp(mean), None if stderr is None else math.exp(mean) * stderr


@overload
def binomial_stderr(share: float, count: int) -> float: ...
@overload
def binomial_stderr(share: Numbers, count: int) -> Value: ...
def binomial_stderr(share: Numbers, count: int) -> Value:
    """The standard error of a share of `count` independent samples.

    Half a sample is added on each side, so that shares of 0 and 1 have an error too.

    >>> round(binomial_stderr(0.5, 100), 6)
    0.05
    >>> round(binomial_stderr(1.0, 100), 6)
    0.007019
    """
    if count < 1:
        raise Refusal(f"a share needs at least 1 sample, found {count}")
    # half a sample on each side
    right = _numbers(share) * count
    inside = (right + 0.5) / (count + 1)
    variance = inside * (1 - inside) / count
    return _plain(np.sqrt(variance))


def accuracy(
    values: Numbers, samples: int, *, shared: bool = True, axis: int = -1
) -> tuple[Value, Value]:
    r"""The mean accuracy of trainings and its standard error over trainings and test samples.

    With $R$ trainings, accuracy $a$, variance $s^2$ over trainings, $n$ samples and
    $b = a (1 - a) / n$:

    - `shared`: all trainings are tested on one set. The variance of the mean is $s^2 / R$ over
      trainings plus $\operatorname{Var}_x[q(x)] / n$ over test sets, where $q(x)$ is the share of
      trainings that are right on $x$. $s^2$ is computed on a fixed set, so it does not contain the
      second term. $q$ is not known from accuracies; $b$ is an upper bound, reached if trainings
      agree on every sample. The standard error is $\sqrt{s^2 / R + b}$. It is right if some samples
      are easy and some hard for all trainings, and too large, by at most $\sqrt{1 + R}$, if
      the mistakes of trainings are independent.
    - not `shared`: every training has its own test set, and $s^2$ contains both terms. The standard
      error is $\sqrt{s^2 / R}$. With few trainings $s^2$ may be small, or 0, by chance, but its
      expectation is at least $b$; so the result is $\sqrt{\max(s^2, b) / R}$, which is too
      large by up to a quarter for two trainings.

    Args:
        values: Accuracies, those along `axis` of independent trainings.
        samples: Test samples of each training.
        shared: Whether all trainings have the same test samples.
        axis: The axis of trainings.

    Returns:
        The mean accuracy and its standard error. With one training only the variance over samples
        is known: the error lacks the variance over trainings.

    >>> mean, stderr = accuracy([0.9, 0.8], 100)
    >>> round(mean, 3), round(stderr, 3)
    (0.85, 0.062)
    """
    numbers = _numbers(values)
    trainings = _count(numbers, axis)
    mean = numbers.mean(axis)

    # what another test set would change
    sampling = np.square(binomial_stderr(mean, samples))
    if trainings < 2:
        return _plain(mean), _plain(np.sqrt(sampling))

    # what other trainings would change
    between = numbers.var(axis, ddof=1)
    if shared:
        variance = sampling + between / trainings
    else:
        variance = np.maximum(between, sampling) / trainings
    return _plain(mean), _plain(np.sqrt(variance))


def crossed_accuracy(right: Numbers) -> tuple[Value, Value]:
    """The mean accuracy of trainings tested on one set, from where each of them was right.

    Trainings and samples are crossed: with mean squares M_T between trainings, M_S between samples
    and M_I of what is left, the mean of a table of R x n has the variance
    (M_T + M_S - M_I) / (R n), whether trainings agree on samples or not. `accuracy` knows the rates
    alone and takes the largest variance that they allow.

    Args:
        right: Whether a training was right on a sample, (..., trainings, samples).

    Returns:
        The mean accuracy and its standard error, which is at least that of R n independent answers
        and so up to a third too large for two trainings that err independently; of one training,
        its sampling error.

    Reference: Searle, Casella and McCulloch, Variance components, 1992, section 4.3.

    >>> mean, stderr = crossed_accuracy([[1, 1, 0, 1], [1, 1, 0, 0]])
    >>> round(mean, 3), round(stderr, 3)
    (0.625, 0.239)
    """
    table = _numbers(right)
    trainings, samples = table.shape[-2:]
    answers = trainings * samples
    both = (-2, -1)
    mean = table.mean(both)

    # what as many independent answers would have
    sampling = binomial_stderr(mean, answers)
    least = np.square(sampling)
    if trainings < 2 or samples < 2:
        return _plain(mean), _plain(np.sqrt(least))

    between_trainings, between_samples, left = _crossed_variances(table)
    variance = between_trainings + between_samples - left
    bounded = np.maximum(variance, least)
    return _plain(mean), _plain(np.sqrt(bounded))


def paired_difference(
    first: Numbers, second: Numbers, axis: tuple[int, int] = (-2, -1)
) -> tuple[Value, Value, Value]:
    """Second less first, where both share their initial networks and their test samples.

    Differences are taken answer by answer, so that whatever the two sides share cancels. Trainings
    and samples are crossed as in `crossed_accuracy`: the variance of the mean of R x n differences
    is (M_T + M_S - M_I) / (R n), with Satterthwaite's degrees of freedom, at least R - 1. It is not
    taken smaller than that of R n independent differences and one more of 0, so that differences
    that are all the same are not called certain. Without an effect at most 1.5 % are significant at
    1 %, fewer where trainings hardly differ (`tests/numerics/test_significance.py`).

    Args:
        first: A number per training and sample, such as whether the answer was right.
        second: The same trainings and samples under the other condition, in the same order.
        axis: The axes of trainings and of samples.

    Returns:
        The mean difference, its standard error and the error's degrees of freedom; floats where
        there are no other axes. With one training only the variance over samples is known:
        the error lacks the variance over trainings.

    Reference: Searle, Casella and McCulloch, Variance components, 1992, section 4.3.

    >>> before = [[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]]
    >>> after = [[1, 0, 0, 1], [1, 0, 0, 0], [0, 0, 1, 1]]
    >>> value, stderr, df = paired_difference(before, after)
    >>> round(value, 3), round(stderr, 3), round(df, 1)
    (-0.5, 0.167, 2.0)
    """
    table = np.moveaxis(_numbers(second) - _numbers(first), axis, (-2, -1))
    trainings, samples = table.shape[-2:]
    count = trainings * samples
    both = (-2, -1)
    if count < 2:
        raise Refusal(f"expected at least two differences, found {trainings} x {samples}")

    # what as many independent differences and one more of 0 would have
    mean_square = np.square(table).sum(both) / (count + 1)
    squared_mean = np.square(table.sum(both) / (count + 1))
    least = (mean_square - squared_mean) / count

    components = _crossed_variances(table)
    between_trainings, between_samples, left = components
    variance = np.maximum(between_trainings + between_samples - left, 0.0)

    # Satterthwaite; what has no degrees of freedom has no variance either
    freedoms = (trainings - 1, samples - 1, (trainings - 1) * (samples - 1))
    terms = [
        np.square(component) / max(freedom, 1) for component, freedom in zip(components, freedoms)
    ]
    uncertainty = np.sum(terms, axis=0)
    fewest = freedoms[0] or freedoms[1]
    df = np.square(variance) / np.where(uncertainty > 0, uncertainty, 1.0)
    stderr = np.sqrt(np.maximum(variance, least))
    return _plain(table.mean(both)), _plain(stderr), _plain(np.maximum(df, fewest))


def _crossed_variances(table: Array) -> tuple[Array, Array, Array]:
    """Variances of the mean of (..., trainings, samples) by trainings, by samples, by the rest.

    The first two contain the third, what neither trainings nor samples explain.
    """
    trainings, samples = table.shape[-2:]
    both = (-2, -1)
    mean = table.mean(both, keepdims=True)
    by_training = table.mean(-1, keepdims=True)
    by_sample = table.mean(-2, keepdims=True)
    rest = table - by_training - by_sample + mean

    freedom = (trainings - 1) * (samples - 1)
    left = np.square(rest).sum(both) / max(freedom, 1) / (trainings * samples)
    zeros = np.zeros_like(left)
    between_trainings = by_training.var(both, ddof=1) / trainings if trainings > 1 else zeros
    between_samples = by_sample.var(both, ddof=1) / samples if samples > 1 else zeros
    return between_trainings, between_samples, left


# ---- jackknife


@overload
def jackknife(replicates: Sequence[float], axis: int = 0) -> float | None: ...
@overload
def jackknife(replicates: Numbers, axis: int = 0) -> Value | None: ...
def jackknife(replicates: Numbers, axis: int = 0) -> Value | None:
    r"""The standard error of a statistic from its values with one group of the data left out.

    Args:
        replicates: The statistic with each observation, or each group of equal size, left out once,
            along `axis`.
        axis: The axis of replicates.

    Returns:
        $\sqrt{\frac{n - 1}{n} \sum_i (t_i - \bar t)^2}$, or None with fewer than two replicates.
        The jackknife is not valid for a statistic that is not smooth (a median, a count, a rank).

    Reference: Efron, The jackknife, the bootstrap and other resampling plans, 1982.

    >>> round(jackknife([2.5, 2.0, 1.5]), 6)        # means of pairs of 1, 2, 3
    0.57735
    """
    numbers = _numbers(replicates)
    count = _count(numbers, axis)
    if count < 2:
        return None
    away = numbers - numbers.mean(axis, keepdims=True)
    squares = np.square(away).sum(axis)
    variance = (count - 1) / count * squares
    return _plain(np.sqrt(variance))


# ---- rank correlation


def varies(values: Numbers) -> bool:
    """Whether there are two different values: a correlation needs that of both its sides.

    >>> varies([1.0, 1.0]), varies([1.0, 2.0])
    (False, True)
    """
    numbers = _numbers(values)
    if not numbers.size:
        return False
    first = numbers.flat[0]
    return bool((numbers != first).any())


class RankCorrelation(NamedTuple):
    """Spearman's rank correlation of `count` pairs, with its permutation null."""

    value: float
    stderr: float | None
    count: int  # type: ignore[assignment]  # hides the method of tuples
    null: float
    null_spread: float | None
    null_stderr: float | None
    p: float

    def fields(self) -> dict[str, Any]:
        """The fields of a quantity: `Quantity(**correlation.fields(), over="layers")`."""
        return self._asdict()


def rank_correlation(
    x: Numbers, y: Numbers, *, generator: Generator, permutations: int = 999
) -> RankCorrelation:
    r"""Spearman's rank correlation, its standard error, and its null over permuted pairs.

    The standard error is $(1 - r^2) \sqrt{(1 + r^2 / 2) / (n - 1)}$ after Bonett and Wright, with
    $r$ shrunk by $n / (n + 1)$, so that $n$ pairs in perfect order still have a standard error
    above zero. At $r = 0$ it is $1 / \sqrt{n - 1}$, the exact standard deviation under the null.
    Compared with the spread over repetitions it is right within a third for correlations up to 0.9,
    and up to twice too large above (`tests/numerics/test_statistics.py`).

    Args:
        x: Numbers (n,); equal ones share their mean rank.
        y: Numbers (n,).
        generator: A generator on the CPU, for the permutations of y.
        permutations: Draws of the null, where there are too many orders to take each once.

    Returns:
        The correlation; `p` is two-sided. Up to nine pairs all orders are counted, so that p is
        exact (2 / n! at a correlation of 1). Beyond, permutations are counted: where the first
        could make it significant, 19,999 of them, fewer for more than 500 pairs. Student's t, which
        is twice too small at 1e-4, is not asked. The standard error is None with fewer than three
        pairs.

    Raises:
        Refusal: Where one side is constant, so that it has no ranks (ask `varies` first).

    Reference: Bonett and Wright, Sample size requirements for estimating Pearson, Kendall and
    Spearman correlations, Psychometrika 2000.

    >>> generator = torch.Generator("cpu").manual_seed(0)
    >>> found = rank_correlation([1, 2, 3, 4], [10, 20, 30, 70], generator=generator)
    >>> round(found.value, 2), round(found.stderr, 2), round(found.null_spread, 1)
    (1.0, 0.24, 0.6)
    """
    from scipy import stats  # here, because it takes a second to load

    first = _numbers(x)
    second = _numbers(y)
    if first.ndim != 1 or first.shape != second.shape:
        raise Refusal(
            f"a rank correlation is of pairs, found shapes {first.shape} and {second.shape}"
        )
    for name, side in (("x", first), ("y", second)):
        if not varies(side):
            raise Refusal(f"{name} is constant, so it has no rank correlation with anything")

    count = len(first)
    value = float(stats.spearmanr(first, second).statistic)
    exact = count <= _ALL_ORDERS
    orders = _all_orders(count) if exact else _random_orders(count, generator, permutations)
    null = _permuted_rank_correlations(first, second, orders)
    # the mean over all orders is 0, and their spread 1 / sqrt(n - 1) where there are no ties
    spread = float(null.std(correction=0 if exact else 1)) if len(orders) > 1 else None
    null_stderr = 0.0 if exact else None
    if spread is not None and not exact:
        null_stderr = spread / math.sqrt(len(orders))
    return RankCorrelation(
        value=value,
        stderr=_rank_correlation_stderr(value, count),
        count=count,
        null=0.0 if exact else float(null.mean()),
        null_spread=spread,
        null_stderr=null_stderr,
        p=_permuted_p(value, first, second, null, generator=None if exact else generator),
    )


def _permuted_p(
    value: float, x: Array, y: Array, null: Tensor, *, generator: Generator | None
) -> float:
    """The share of orders that are as far from none as the one that was seen.

    Args:
        value: The correlation.
        x: One side of the pairs.
        y: The other one.
        null: Correlations of all orders, or of the first random ones.
        generator: For more random orders; None where these are all.
    """
    # to rounding
    least = abs(value) - 1e-12
    as_far, draws = int((null.abs() >= least).sum()), len(null)
    if generator is None:
        return as_far / draws
    if (1 + as_far) / (1 + draws) <= significance.LEVEL:
        most = min(_MOST_ORDERS, _MOST_PERMUTED // len(x))
        while draws < most:
            orders = _random_orders(len(x), generator, min(draws, most - draws, 10_000))
            permuted = _permuted_rank_correlations(x, y, orders)
            as_far += int((permuted.abs() >= least).sum())
            draws += len(orders)
    return (1 + as_far) / (1 + draws)


def _rank_correlation_stderr(value: float, count: int) -> float | None:
    if count < 3:
        return None
    # as if one more pair without information had been seen
    shrunk = value * count / (count + 1)
    square = shrunk**2
    # Bonett and Wright
    widened = 1 + square / 2
    variance = widened / (count - 1)
    return (1 - square) * math.sqrt(variance)


@functools.cache
def _all_orders(count: int) -> Tensor:
    """Every order of `count` things, (count!, count)."""
    return torch.tensor(list(itertools.permutations(range(count))), device="cpu")


def _random_orders(count: int, generator: Generator, draws: int) -> Tensor:
    """Random orders, (draws, count): each is that of as many random keys."""
    return torch.rand(draws, count, generator=generator, device="cpu").argsort(1)


def _permuted_rank_correlations(x: Array, y: Array, orders: Tensor) -> Tensor:
    """Rank correlations (orders,) of x with y in each of the orders."""
    # a permutation leaves their lengths
    a = _centred_ranks(x)
    b = _centred_ranks(y)
    scale: Tensor = a.norm() * b.norm()

    products = b[orders] @ a
    return products / scale


def _centred_ranks(values: Array) -> Tensor:
    """Ranks minus their mean; equal values share their mean rank."""
    from scipy import stats

    middle = (len(values) + 1) / 2
    ranks = stats.rankdata(values) - middle
    return torch.as_tensor(ranks, device="cpu", dtype=torch.float64)


# ---- nulls


class Repetitions(TypedDict):
    """The fields of a quantity that say what its error is over, and how many of these there are."""

    over: str
    count: int
    df: NotRequired[float | None]


class Null(TypedDict):
    """The fields of a quantity that say what no effect looks like."""

    null: float | None
    null_spread: float | None
    null_stderr: float | None
    p: NotRequired[float | None]


NO_NULL: Null = {"null": None, "null_spread": None, "null_stderr": None}  # where it is unknown


def null_of(
    values: Numbers,
    *,
    value: float | None = None,
    stderr: float | None = None,
    df: float | None = None,
) -> Null:
    """The fields of a quantity that say what no effect looks like: `null`, its spread and error.

    Args:
        values: The statistic in independent draws without the effect, (draws,).
        value: The statistic itself, for its p-value among the draws.
        stderr: The standard error of `value`, where draws do not contain what it is over:
            permutations of the same samples do, other networks do not. Both must then be beyond.
        df: Degrees of freedom of `stderr`.

    Returns:
        `null`, `null_spread` and `null_stderr`; the last two are None with fewer than two draws.
        With `value` also `p` (`draws_p_value`); None with fewer than `FEWEST_DRAWS`, which have too
        few tails to count: their spread decides (`significance.few_draws_p_value`).

    >>> null_of([1.0, 2.0, 3.0])
    {'null': 2.0, 'null_spread': 1.0, 'null_stderr': 0.5773502691896258}
    """
    numbers = _numbers(values).ravel()
    count = _count(numbers, 0)
    mean = float(numbers.mean())
    # one draw has no spread
    spread = null_stderr = None
    if count > 1:
        spread = float(numbers.std(ddof=1))
        null_stderr = spread / math.sqrt(count)
    fields: Null = {"null": mean, "null_spread": spread, "null_stderr": null_stderr}
    if value is not None:
        own = None
        if stderr is not None:
            terms = [(stderr, df), (null_stderr or 0.0, count - 1.0)]
            own = significance.sum_p_value(value - mean, terms)
        p = draws_p_value(value, numbers) if count >= FEWEST_DRAWS else None
        fields["p"] = significance.both_p_value(p, own) if p is not None else None
    return fields


def draws_p_value(value: float, draws: Numbers) -> float:
    """The two-sided p-value of a statistic among draws without the effect.

    (1 + b) / (1 + m) of m draws, b of them at least as far from the median as `value`. Counting
    says no more than 1 / (1 + m) where none is, which would never be significant among many
    comparisons. So the tail is fitted: of the farthest draws, the logarithm of how far they are is
    taken as exponential, and its scale is as uncertain as that of so few. This is exact for tails
    that fall like a power, however heavy, and careful for all lighter ones (normal, exponential,
    lognormal); what would be significant for normal draws at 4 standard deviations needs 6 to 10.
    Draws that take few values, such as counts, are only counted.

    References: Phipson and Smyth, Permutation p-values should never be zero, 2010. Hill, A simple
    general approach to inference about the tail of a distribution, 1975.

    >>> draws_p_value(5.0, [1.0, 2.0, 3.0])
    0.25
    """
    numbers = _numbers(draws).ravel()
    count = _count(numbers, 0)
    middle = float(np.median(np.append(numbers, value)))
    away = np.sort(np.abs(numbers - middle))[::-1]
    distance = abs(value - middle)
    # equal to rounding counts as equally far
    as_far = int((away >= distance * (1 - 1e-12)).sum())
    counted = (1 + as_far) / (1 + count)
    if as_far or count < FEWEST_DRAWS:
        return counted
    return min(counted, _tail_p_value(distance, away))


def _tail_p_value(distance: float, away: Array) -> float:
    """The chance of what is farther than all draws, whose distances are given in falling order."""
    if not away[_TAIL] > 0:
        return 1.0
    beyond = np.log(away[:_TAIL] / away[_TAIL])
    scale = float(beyond.mean())
    if len(np.unique(away[: _TAIL + 1])) <= _TAIL or scale <= 1e-9:
        return 1.0
    # the scale of so few exponential numbers makes the next one a Pareto number
    farther = math.log(distance / away[_TAIL - 1])
    return _TAIL / len(away) * float((1 + farther / (_TAIL * scale)) ** -_TAIL)


def share_p_value(share: float, count: int, rate: float) -> float:
    """The two-sided p-value of a share of `count` independent samples where `rate` is expected.

    Exact: the probability of counts that are less likely than the one that was seen, and half of
    that of those as likely (mid-p), so that about 1 % are significant at 1 % although counts are
    discrete.

    Args:
        share: Share of samples, such as an accuracy.
        count: How many samples.
        rate: The share without an effect, such as that of the most frequent class.

    Returns:
        The p-value.

    Reference: Lancaster, Significance tests in discrete distributions, 1961.

    >>> round(share_p_value(0.7, 50, 0.5), 4), share_p_value(1.0, 3, 0.5)
    (0.0046, 0.125)
    """
    from scipy import stats

    if count < 1 or not 0 < rate < 1:
        raise Refusal(f"expected samples and a rate between 0 and 1, found {count} and {rate}")
    outcomes = np.arange(count + 1)
    return _mid_p_value(round(share * count), stats.binom.pmf(outcomes, count, rate))


def count_p_value(count: int, expected: float) -> float:
    """The two-sided p-value of a count of independent events where `expected` are expected.

    Exact for a Poisson distribution, with half of the probability of the count itself (mid-p).

    Reference: Lancaster, Significance tests in discrete distributions, 1961.

    >>> round(count_p_value(20, 10.0), 4), round(count_p_value(10, 10.0), 2)
    (0.003, 0.87)
    """
    from scipy import stats

    if count < 0 or expected <= 0:
        raise Refusal(f"expected counts of at least 0 and above 0, found {count}, {expected}")
    # beyond, nothing is left to rounding
    most = int(max(count, expected) + 40 * math.sqrt(expected) + 40)
    return _mid_p_value(count, stats.poisson.pmf(np.arange(most + 1), expected))


def _mid_p_value(seen: int, chances: Array) -> float:
    """Probability of outcomes less likely than the one seen, and half of those as likely."""
    own = chances[seen]
    less = chances[chances < own * (1 - 1e-9)].sum()
    alike = chances[np.abs(chances - own) <= own * 1e-9].sum()
    return float(min(less + alike / 2, 1.0))


def permutation_null(
    statistic: Callable[[Tensor], Any],
    values: Tensor,
    *,
    generator: Generator | Sequence[Generator],
    draws: int,
) -> Array:
    """A statistic of rows in random order, such as labels that no longer belong to their samples.

    Args:
        statistic: Takes the permuted rows; returns a number or an array of one shape.
        values: Rows (n, ...), on any device.
        generator: A generator on the CPU that all draws follow, one `torch.randperm` each; or one
            a draw.
        draws: How many permutations.

    Returns:
        The statistics, (draws, ...).

    >>> generator = torch.Generator("cpu").manual_seed(0)
    >>> rows = torch.arange(3.0, device="cpu")
    >>> permutation_null(lambda permuted: permuted.sum(), rows, generator=generator, draws=2)
    array([3., 3.])
    """
    draws_of_null = []
    for stream in _streams_of(generator, draws):
        # sampled on the CPU, the same for every device
        order = torch.randperm(len(values), generator=stream, device="cpu")
        permuted = values[order.to(values.device)]
        draws_of_null.append(_numbers(statistic(permuted)))
    return np.stack(draws_of_null)


def random_rotation(size: int, *, generator: Generator) -> Tensor:
    """An orthogonal matrix (size, size), uniform over all of them, on the CPU.

    Q of a Gaussian matrix is uniform only after the signs of R's diagonal are taken into it.

    Reference: Mezzadri, How to generate random matrices from the classical compact groups, 2007.

    >>> turn = random_rotation(3, generator=torch.Generator("cpu").manual_seed(0))
    >>> torch.allclose(turn @ turn.T, torch.eye(3, device="cpu", dtype=torch.float64))
    True
    """
    noise = torch.randn(size, size, generator=generator, device="cpu", dtype=torch.float64)
    columns: Tensor
    columns, triangle = torch.linalg.qr(noise)
    signs = torch.where(triangle.diagonal() < 0, -1.0, 1.0)
    return columns * signs.to(columns.dtype)


def _streams_of(generator: Generator | Sequence[Generator], draws: int) -> Sequence[Generator]:
    """One generator a draw."""
    if isinstance(generator, Generator):
        return [generator] * draws
    count = len(generator)
    if count != draws:
        raise Refusal(f"expected one generator, or one per draw ({draws}), found {count}")
    return generator


# ---- what is taken and given back


def _numbers(values: Numbers) -> Array:
    """Values as a numpy array in double precision."""
    if isinstance(values, Tensor):
        on_host = values.detach().to("cpu", torch.float64)
        return on_host.numpy()
    # numpy cannot read tensors of another device out of a list
    if isinstance(values, Sequence) and any(isinstance(each, Tensor) for each in values):
        return np.stack([_numbers(each) for each in values])
    return np.asarray(values, dtype=np.float64)


def _count(numbers: Array, axis: int) -> int:
    """How many values there are along an axis; none at all are refused."""
    shape = numbers.shape
    if not shape or not shape[axis]:
        raise Refusal(f"expected at least one value along axis {axis}, found {shape}")
    return int(shape[axis])


def _plain(value: float | Array) -> Value:
    """A float where there is one number, else the array."""
    return float(value) if np.ndim(value) == 0 else np.asarray(value)
