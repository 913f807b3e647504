"""Without an effect about 1 % are called significant: every kind of null, simulated."""

import numpy as np
import pytest
import significance_calibration as calibration
from penchant import Quantity
from penchant_numerics.statistics import significance, skewed_means, statistics
from scipy import special, stats

SIMULATIONS = 2000  # of a kind that is quick
ALARM = 1e-4  # chance that a kind within its bounds is refused, on either side: 1 % over all kinds


@pytest.mark.parametrize("kind", calibration.kinds(), ids=lambda kind: f"{kind.name}-{kind.size}")
def test_about_one_per_cent_is_significant_without_an_effect(kind):
    if kind.simulations is None:
        assert kind.least <= kind.share() <= kind.most
        return
    found = round(kind.share(kind.fast) * kind.fast)
    least = stats.binom.ppf(ALARM, kind.fast, kind.least) if kind.least else 0
    most = stats.binom.isf(ALARM, kind.fast, kind.most)
    assert least <= found <= most


def test_so_many_simulations_see_errors_that_are_taken_as_known():
    """Means of two to seven trainings without degrees of freedom: 23 to 4.2 % significant."""
    most = stats.binom.isf(ALARM, SIMULATIONS, 0.015) / SIMULATIONS
    rates = [2 * stats.t.sf(stats.norm.isf(0.005), count - 1) for count in range(2, 8)]
    # a rate is missed where it gives no more than the bound
    chances = stats.binom.cdf(most * SIMULATIONS, SIMULATIONS, rates)
    assert most < 0.03 and chances.max() < 0.01


def test_standard_errors_alone_would_not_do():
    """Why shares and correlations near 1 have p-values of their own."""
    chances = stats.binom.pmf(range(51), 50, 0.99)
    share = 0.0
    for right, chance in enumerate(chances):
        error = statistics.binomial_stderr(right / 50, 50)
        share += chance * (significance.p_value(right / 50 - 0.99, error) <= 0.01)
    assert share < 0.001
    p, weights = calibration.shares(0.99, 50)
    exact = sum(weight for each, weight in zip(p, weights) if each <= 0.01)
    assert exact == pytest.approx(stats.binom.cdf(47, 50, 0.99))


@pytest.mark.parametrize(("count", "rate", "right"), [(50, 0.5, 35), (200, 0.9, 170), (7, 0.3, 0)])
def test_p_values_of_shares_are_those_of_scipy_less_half_of_what_was_seen(count, rate, right):
    expected = stats.binomtest(right, count, rate).pvalue
    chances = stats.binom.pmf(range(count + 1), count, rate)
    alike = chances[np.isclose(chances, chances[right], rtol=1e-7)].sum()
    found = statistics.share_p_value(right / count, count, rate)
    assert found == pytest.approx(expected - alike / 2)


def test_p_values_of_counts_are_those_of_shares_of_very_many():
    for count in (0, 3, 20):
        many = statistics.share_p_value(count / 200_000, 200_000, 10 / 200_000)
        assert statistics.count_p_value(count, 10.0) == pytest.approx(many, rel=1e-3)


def test_beyond_all_draws_their_tail_says_how_far():
    draws = np.random.default_rng(0).normal(size=999)
    assert statistics.draws_p_value(2.0, draws) > 0.01
    far, farther = (statistics.draws_p_value(size, draws) for size in (6.0, 20.0))
    # Student's t would have 1e-9 and 1e-74
    assert 1e-5 < far < 1 / 1000 and 1e-9 < farther < 1e-5
    # of few draws there is no telling
    assert statistics.draws_p_value(10.0, draws[:50]) == pytest.approx(1 / 51)
    # of counts neither: of 199 none is as far as 3
    few = np.repeat([0.0, 1.0, 2.0], [150, 40, 9])
    assert statistics.draws_p_value(3.0, few) == pytest.approx(1 / 200)


def test_the_tail_of_a_power_law_is_exact_on_average():
    """Draws 1/u^2 have P(X > x) = x^-0.5, and a new draw is beyond p as often as p."""
    random = np.random.default_rng(0)
    below = 0
    for _ in range(20_000):
        draws = random.random(199) ** -2.0
        below += statistics.draws_p_value(random.random() ** -2.0, draws) <= 0.002
    assert 0.6 < below / 40 < 1.4


def test_few_orders_are_counted_again_among_many():
    """Student's t gives a correlation of 0.9441 of 12 pairs half of its exact p-value."""
    stream = statistics.torch.Generator("cpu").manual_seed(0)
    found = statistics.rank_correlation(range(12), range(12), generator=stream)
    assert found.p == pytest.approx(1 / 20_000)
    order = [1, 0, 2, 4, 3, 5, 7, 6, 8, 9, 10, 11]
    close = statistics.rank_correlation(range(12), order, generator=stream)
    assert close.p == pytest.approx(1 / 20_000)
    # the null that is shown is that of the first ones
    assert found.null_stderr == pytest.approx(found.null_spread / 999**0.5)
    none = statistics.rank_correlation(range(12), [0, 11] * 6, generator=stream)
    assert none.p * 1000 == pytest.approx(round(none.p * 1000))


# ---- skewed repetitions


def test_lognormal_means_have_the_generalised_p_value_of_simulations():
    values, null = np.array([0.2, 0.5, 0.3, 0.35]), 1.0
    logs, random = np.log(values), np.random.default_rng(0)
    scale = random.chisquare(3, 400_000) / 3
    pivot = logs.mean() - random.normal(size=400_000) / scale**0.5 * logs.std(ddof=1) / 2
    pivot += logs.var(ddof=1) / (2 * scale)
    above = np.mean(pivot >= 0.0)
    p = skewed_means.lognormal_p_value(values, null)
    assert p == pytest.approx(2 * min(above, 1 - above), rel=0.02)
    # in other units it is the same
    assert skewed_means.lognormal_p_value(7 * values, 7 * null) == pytest.approx(p)
    # of numbers that hardly vary it is that of Student's t
    close = np.array([1.0, 1.001, 1.002, 1.0005, 1.0015])
    student = stats.ttest_1samp(close, 1.004).pvalue
    assert skewed_means.lognormal_p_value(close, 1.004) == pytest.approx(student, rel=0.02)


def test_skewness_does_not_matter_where_there_is_none():
    values = np.array([-1.0, 1.0, -2.0, 2.0, -3.0, 3.0, -4.0, 4.0, -5.0, 5.0]) + 2.5
    student = stats.ttest_1samp(values, 0.0).pvalue
    assert skewed_means.skewness_p_value(values) == pytest.approx(student)
    # mostly small ones, and a few large
    skewed = np.array([0.1] * 9 + [4.0]) - np.linspace(0, 0.1, 10) - 1.5
    below = stats.ttest_1samp(skewed, 0.0).pvalue
    assert skewed_means.skewness_p_value(skewed) > 1.5 * below


def test_factors_are_tested_by_their_logarithms():
    values = [2.0, 4.0, 3.0, 9.0]
    found = Quantity.of(values, over="trainings", null=1.0, multiplicative=True)
    logs = np.log(values)
    assert found.value == pytest.approx(stats.gmean(values))
    assert found.stderr == pytest.approx(stats.gmean(values) * stats.sem(logs))
    assert found.null_p_value == pytest.approx(stats.ttest_1samp(logs, 0.0).pvalue)
    turned = Quantity.of(1 / np.array(values), over="trainings", null=1.0, multiplicative=True)
    assert turned.null_p_value == pytest.approx(found.null_p_value)
    with pytest.raises(ValueError, match="of positive numbers, found -1"):
        Quantity.of([1.0, -1.0], over="trainings", multiplicative=True)


# ---- what a run could see


@pytest.mark.parametrize(("count", "comparisons"), [(2, 1), (3, 1), (3, 20), (12, 100)])
def test_the_smallest_effect_is_just_significant(count, comparisons):
    size = significance.smallest_effect(count, comparisons)
    others = [1.0] * (comparisons - 1)
    for factor, holds in ((1.001, True), (0.999, False)):
        p = significance.p_value(factor * size, 1.0, count - 1)
        assert significance.significant([p, *others])[0] is holds


def test_drawn_nulls_that_are_narrower_than_the_value_leave_its_own_error():
    """Draws of other things than the value's repetitions do not contain its error."""
    values, draws = [1.0, 0.0, 2.0, -0.5, 1.5], np.random.default_rng(0).normal(0, 0.1, 199)
    found = Quantity.of(values, over="trainings", null_draws=draws)
    assert found.null_p_value > stats.ttest_1samp(values, draws.mean()).pvalue > 0.1
    assert statistics.null_of(draws, value=0.8)["p"] <= 1 / 200


def test_large_z_scores_are_those_of_their_p_values():
    # just above and just below where p-values underflow, both formulas hold
    for df in (200, 1000, 1e5):
        t = np.sqrt(df * np.expm1(36.0**2 / df))
        p = significance.p_value(t, 1.0, df)
        assert p > significance.SMALLEST
        beyond = np.sqrt(df * np.expm1(40.0**2 / df))
        assert significance.t_score(t, 1.0, df) == pytest.approx(36.0, rel=3e-3)
        assert significance.t_score(beyond, 1.0, df) == pytest.approx(40.0, rel=3e-3)


def share_significant(difference, error, df):
    """The share of simulations with a two-sided p-value of at most 1 %."""
    p = 2 * special.stdtr(df, -np.abs(difference / error))
    return float(np.mean(p <= 0.01))


# ---- paired differences of trainings and samples


def paired_answers(trainings, samples, *, between, hard, simulations, seed=0):
    """Right answers (simulations, trainings, samples) under two conditions of one mean accuracy.

    `between` is how much the condition changes a training, `hard` how much it changes a sample.
    """
    random = np.random.default_rng(seed)
    shape = (simulations, trainings, samples)
    chance = random.uniform(0.35, 0.85, (simulations, 1, samples))
    skill = random.normal(0.0, between, (simulations, trainings, 1))
    difficulty = random.uniform(-hard, hard, (simulations, 1, samples))
    first = random.random(shape) < chance
    second = random.random(shape) < np.clip(chance + skill + difficulty, 0, 1)
    return first, second


@pytest.mark.parametrize("trainings", [2, 3, 5, 10])
@pytest.mark.parametrize(("between", "hard"), [(0.0, 0.0), (0.0, 0.15), (0.05, 0.15), (0.1, 0.0)])
def test_paired_differences_are_not_called_significant_too_often(trainings, between, hard):
    first, second = paired_answers(
        trainings, 200, between=between, hard=hard, simulations=3000, seed=trainings
    )
    value, error, df = statistics.paired_difference(first, second)
    share = share_significant(value, error, df)
    assert share <= 0.015
    # where trainings decide, and there are enough of them, it is the level itself
    if trainings >= 5 and between == 0.1:
        assert share >= 0.005
    # the error is the spread over repetitions; that of few trainings that hardly differ is larger
    ratio = np.sqrt(np.mean(error**2)) / value.std()
    assert 0.9 < ratio < 1.35


def test_paired_differences_of_one_training_are_those_of_a_t_test():
    first, second = paired_answers(1, 60, between=0.0, hard=0.2, simulations=1)
    value, error, df = statistics.paired_difference(first[0], second[0])
    expected = stats.ttest_rel(second[0, 0].astype(float), first[0, 0])
    assert df == 59
    # one more difference of 0 counts for little
    assert value / error == pytest.approx(expected.statistic, rel=0.02)


def test_paired_differences_where_samples_do_not_matter_are_those_of_trainings():
    gaps = np.random.default_rng(0).normal(size=6)
    table = np.repeat(gaps[:, None], 40, axis=1)
    value, error, df = statistics.paired_difference(np.zeros_like(table), table)
    expected = stats.ttest_1samp(gaps, 0.0)
    assert df == pytest.approx(5)
    assert value / error == pytest.approx(expected.statistic, rel=1e-12)


def test_paired_differences_cancel_whatever_both_sides_share():
    random = np.random.default_rng(0)
    shared = random.normal(scale=100.0, size=(4, 30))
    first = shared + random.normal(size=(4, 30))
    second = shared + random.normal(size=(4, 30))
    with_it = statistics.paired_difference(first, second)
    without = statistics.paired_difference(first - shared, second - shared)
    assert with_it == pytest.approx(without)
    turned = statistics.paired_difference(first.T, second.T, axis=(1, 0))
    assert turned == pytest.approx(with_it)
    stacked = statistics.paired_difference([first, second], [second, first])
    assert stacked[0] == pytest.approx([with_it[0], -with_it[0]])
    assert stacked[1] == pytest.approx([with_it[1]] * 2)


def test_differences_that_are_all_the_same_are_not_certain():
    right, wrong = np.ones((3, 20)), np.zeros((3, 20))
    value, error, df = statistics.paired_difference(right, wrong)
    assert value == -1 and 0.01 < error < 0.03 and df == 2
    with pytest.raises(ValueError, match="found 1 x 1"):
        statistics.paired_difference([[1.0]], [[0.0]])
