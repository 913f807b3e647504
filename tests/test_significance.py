"""Without an effect about 1 % are called significant: every kind of null, simulated."""

import numpy as np
import pytest
from penchant_numerics import statistics
from scipy import special, stats


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
