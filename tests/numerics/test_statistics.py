"""Means, errors and nulls: against closed forms, scipy, and the spread over repetitions."""

import inspect
import math

import numpy as np
import pytest
import torch
from penchant_numerics.statistics import statistics
from scipy import stats


def generator(seed=0):
    return torch.Generator("cpu").manual_seed(seed)


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0, 6.0],
        np.array([1, 2, 6]),
        torch.tensor([1.0, 2.0, 6.0], device="cpu", requires_grad=True),
        [torch.tensor(each, device="cpu") for each in (1.0, 2.0, 6.0)],
    ],
)
def test_lists_arrays_and_tensors_have_the_same_mean_and_error(values):
    mean, stderr = statistics.mean_and_stderr(values)
    assert type(mean) is type(stderr) is float
    assert mean == 3.0
    assert stderr == pytest.approx(stats.sem([1, 2, 6]), rel=1e-15)


def test_arrays_keep_their_other_axes():
    values = np.random.default_rng(0).normal(size=(4, 5, 6))
    mean, stderr = statistics.mean_and_stderr(torch.as_tensor(values, device="cpu"), axis=1)
    assert mean.dtype == stderr.dtype == np.float64
    np.testing.assert_allclose(mean, values.mean(1), rtol=1e-15)
    np.testing.assert_allclose(stderr, stats.sem(values, axis=1), rtol=1e-14)


def test_what_is_unknown_is_none_and_never_zero():
    assert statistics.mean_and_stderr([2.0]) == (2.0, None)
    mean, stderr = statistics.mean_and_stderr(np.ones((3, 1)))
    assert mean.shape == (3,) and stderr is None
    assert statistics.jackknife([1.0]) is None
    assert statistics.null_of([4.0]) == {"null": 4.0, "null_spread": None, "null_stderr": None}
    found = statistics.rank_correlation([1, 2], [3, 4], generator=generator())
    assert found.stderr is None


def test_no_values_at_all_are_refused():
    with pytest.raises(ValueError, match="at least one value"):
        statistics.mean_and_stderr([])
    with pytest.raises(ValueError, match="at least 1 sample"):
        statistics.binomial_stderr(0.5, 0)


def test_shares_of_zero_and_one_have_an_error():
    low, middle, high = statistics.binomial_stderr([0.0, 0.5, 1.0], 1000)
    assert low == pytest.approx(high) and low > 0
    assert middle == pytest.approx(math.sqrt(0.25 / 1000), rel=1e-5)


def simulate_accuracies(trainings, samples, *, shared, repetitions, between, random):
    """Accuracies (repetitions, trainings) of classifiers for which samples differ in difficulty."""
    sets = 1 if shared else trainings
    difficulty = random.normal(0.0, 3.0, (repetitions, sets, samples))
    skill = random.normal(2.0, between, (repetitions, trainings, 1))
    right = random.random((repetitions, trainings, samples)) < 1 / (1 + np.exp(-skill - difficulty))
    return right.mean(-1)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("trainings", [2, 5, 10])
@pytest.mark.parametrize("between", [0.0, 0.3, 1.0])
def test_the_error_of_an_accuracy_is_its_spread_over_repetitions(shared, trainings, between):
    random = np.random.default_rng(1)
    values = simulate_accuracies(
        trainings, 200, shared=shared, repetitions=800, between=between, random=random
    )
    mean, stderr = statistics.accuracy(values, 200, shared=shared)
    ratio = math.sqrt(np.square(stderr).mean()) / mean.std(ddof=1)
    assert 0.7 < ratio < 1.4


@pytest.mark.parametrize("trainings", [1, 4])
def test_an_accuracy_of_one_has_an_error(trainings):
    mean, stderr = statistics.accuracy([1.0] * trainings, 100, shared=False)
    assert mean == 1.0 and stderr > 0


def test_trainings_that_share_a_test_set_do_not_divide_its_error():
    _, alone = statistics.accuracy([0.8], 100)
    _, equal = statistics.accuracy([0.8] * 25, 100)
    _, own = statistics.accuracy([0.8] * 25, 100, shared=False)
    assert equal == pytest.approx(alone, rel=1e-12)
    assert equal == pytest.approx(5 * own, rel=1e-12)


def drawn_answers(trainings, hard, skill, seed):
    """Whether trainings of differing skill are right on samples of differing difficulty."""
    rng = np.random.default_rng(seed)
    chance = 0.6 + hard * rng.uniform(-1, 1, 40) + skill * rng.standard_normal((trainings, 1))
    return rng.random((trainings, 40)) < chance


@pytest.mark.parametrize("trainings", [2, 6])
@pytest.mark.parametrize(("hard", "skill"), [(0.0, 0.0), (0.4, 0.0), (0.0, 0.1), (0.3, 0.05)])
def test_crossed_answers_have_the_spread_over_repetitions(trainings, hard, skill):
    """Whether trainings agree or not, which rates alone cannot tell."""
    found = []
    for seed in range(300):
        right = drawn_answers(trainings, hard, skill, seed)
        found.append(statistics.crossed_accuracy(right))
    values, errors = np.array(found).T
    ratio = np.sqrt(np.mean(errors**2)) / values.std(ddof=1)
    # two trainings that err independently are known to claim a third too much
    assert 0.8 < ratio < (1.35 if trainings == 2 else 1.2)


def test_crossed_answers_of_many_settings_are_those_of_each():
    tables = [drawn_answers(3, 0.3, 0.1, seed) for seed in range(4)]
    together = statistics.crossed_accuracy(np.stack(tables))
    for number, table in enumerate(tables):
        alone = statistics.crossed_accuracy(torch.as_tensor(table))
        assert alone == pytest.approx((together[0][number], together[1][number]))
    # one training has its sampling error; nothing is ever certain
    assert statistics.crossed_accuracy(tables[0][:1])[1] == pytest.approx(
        statistics.binomial_stderr(tables[0][0].mean(), 40)
    )
    assert statistics.crossed_accuracy(np.ones((3, 40)))[1] > 0


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(0).normal(size=(9, 3))
    without = (values.sum(0) - values) / 8
    np.testing.assert_allclose(statistics.jackknife(without), stats.sem(values), rtol=1e-13)


def pairs(count, correlation, repetitions, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(repetitions, count))
    rest = math.sqrt(1 - correlation**2)
    return x, correlation * x + rest * random.normal(size=(repetitions, count))


@pytest.mark.parametrize("count", [6, 12, 50])
@pytest.mark.parametrize("correlation", [0.0, 0.5, -0.8, 0.95])
def test_the_error_of_a_rank_correlation_is_its_spread_over_repetitions(count, correlation):
    found = [
        statistics.rank_correlation(x, y, generator=generator(), permutations=1)
        for x, y in zip(*pairs(count, correlation, 150))
    ]
    values, errors = (
        np.array([getattr(each, name) for each in found]) for name in ("value", "stderr")
    )
    assert 0.5 < errors.mean() / values.std(ddof=1) < 2


def test_a_perfect_order_is_not_certain():
    found = statistics.rank_correlation(range(8), range(8), generator=generator())
    assert found.value == pytest.approx(1)
    assert found.stderr > 0.05


def test_the_null_of_a_rank_correlation_has_the_exact_spread():
    x, y = (each[0] for each in pairs(12, 0.4, 1))
    found = statistics.rank_correlation(x, y, generator=generator(), permutations=4000)
    assert found.value == stats.spearmanr(x, y).statistic
    assert found.null_spread == pytest.approx(1 / math.sqrt(11), rel=0.04)
    assert abs(found.null) < 4 * found.null_stderr
    assert found.null_stderr == pytest.approx(found.null_spread / math.sqrt(4000))


def test_the_p_value_is_that_of_a_permutation_test():
    x, y = (each[0] for each in pairs(12, 0.5, 1, seed=3))
    found = statistics.rank_correlation(x, y, generator=generator(), permutations=4000)
    # scipy before 1.15 has another name for the source of random numbers
    names = inspect.signature(stats.permutation_test).parameters
    source = "rng" if "rng" in names else "random_state"
    # without ties the correlation of ranks is a rising function of their products' sum
    expected = stats.permutation_test(
        (stats.rankdata(x) - 6.5,),
        lambda each, axis: (each * (stats.rankdata(y) - 6.5)).sum(axis),
        vectorized=True,
        permutation_type="pairings",
        n_resamples=2000,
        **{source: np.random.default_rng(0)},
    ).pvalue
    assert found.p == pytest.approx(expected, abs=4 * math.sqrt(0.25 / 2000))


def test_p_values_of_pairs_without_correlation_are_uniform():
    x, y = pairs(8, 0.0, 300)
    found = [
        statistics.rank_correlation(a, b, generator=generator(number), permutations=199).p
        for number, (a, b) in enumerate(zip(x, y))
    ]
    assert stats.kstest(found, "uniform").pvalue > 0.01


def test_ties_share_their_rank_and_constants_are_refused():
    x, y = [1, 1, 2, 3], [5, 6, 6, 9]
    found = statistics.rank_correlation(x, y, generator=generator())
    assert found.value == pytest.approx(stats.spearmanr(x, y).statistic)
    assert statistics.varies(x) and not statistics.varies([2, 2, 2]) and not statistics.varies([])
    with pytest.raises(ValueError, match="y is constant"):
        statistics.rank_correlation(x, [1, 1, 1, 1], generator=generator())
    with pytest.raises(ValueError, match="pairs"):
        statistics.rank_correlation(x, [1, 2], generator=generator())


def test_a_null_has_a_mean_a_spread_and_an_error_of_its_mean():
    values = np.random.default_rng(0).normal(size=50)
    found = statistics.null_of(torch.as_tensor(values, device="cpu"))
    assert found["null"] == pytest.approx(values.mean())
    assert found["null_spread"] == pytest.approx(values.std(ddof=1))
    assert found["null_stderr"] == pytest.approx(stats.sem(values))


def test_permutations_follow_one_generator_or_one_each():
    rows = torch.arange(10, device="cpu").reshape(5, 2)
    whole = statistics.permutation_null(
        lambda each: each[:, 0], rows, generator=generator(), draws=3
    )
    stream = generator()
    expected = [rows[torch.randperm(5, generator=stream, device="cpu"), 0] for _ in range(3)]
    np.testing.assert_array_equal(whole, torch.stack(expected))

    streams = [generator(each) for each in range(3)]
    each = statistics.permutation_null(lambda each: each[:, 0], rows, generator=streams, draws=3)
    expected = [rows[torch.randperm(5, generator=generator(n), device="cpu"), 0] for n in range(3)]
    np.testing.assert_array_equal(each, torch.stack(expected))
    with pytest.raises(ValueError, match="one per draw"):
        statistics.permutation_null(len, rows, generator=streams, draws=4)


def test_random_rotations_are_orthogonal_and_uniform():
    stream = generator()
    found = torch.stack([statistics.random_rotation(3, generator=stream) for _ in range(4000)])
    identity = torch.eye(3, device="cpu", dtype=torch.float64).expand_as(found)
    torch.testing.assert_close(found @ found.mT, identity, rtol=0, atol=1e-12)
    # of a uniform rotation every entry has mean 0, mean square 1/3 and mean fourth power 1/5
    assert found.mean(0).abs().max() < 5 * math.sqrt(1 / 3 / 4000)
    torch.testing.assert_close(found.square().mean(0), identity[0] * 0 + 1 / 3, rtol=0, atol=0.025)
    torch.testing.assert_close(found.pow(4).mean(0), identity[0] * 0 + 1 / 5, rtol=0, atol=0.025)
