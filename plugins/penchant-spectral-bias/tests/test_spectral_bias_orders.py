"""Orders, learnt shares, resolutions and shared ends: against scipy, closed forms and seeds."""

import itertools
import math

import numpy as np
import pytest
import torch
from penchant_numerics.statistics import statistics
from penchant_spectral_bias.class_paths import probe
from penchant_spectral_bias.shared.band_spectra import first_fit, learnt_share, mean_over_training
from penchant_spectral_bias.shared.rank_order import mean_with_resolution, rank_order
from scipy import stats

HOST = {"device": "cpu", "dtype": torch.float64}
PLACES = torch.arange(1, 9, **HOST)


def stream(seed=0):
    return torch.Generator(device="cpu").manual_seed(seed)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=stream(seed), **HOST)


def test_order_is_the_mean_of_scipys_correlations():
    values = (PLACES + 3 * draw(5, 8)).round()  # with ties
    found = rank_order(values, PLACES, generator=stream())
    expected = [stats.spearmanr(row, PLACES).statistic for row in values]
    assert found.value == pytest.approx(np.mean(expected), rel=1e-12)
    assert found.over == "trainings" and found.count == 5
    assert found.stderr > np.std(expected, ddof=1) / math.sqrt(5)


def test_perfect_order_is_not_called_certain():
    """The jackknife gave 1 ± 0."""
    found = rank_order(PLACES.expand(5, 8), PLACES, generator=stream())
    assert found.value == pytest.approx(1.0) and found.stderr > 0.002


def test_error_of_an_order_is_its_spread_over_repetitions():
    found = []
    for seed in range(100):
        found.append(rank_order(PLACES + 1.5 * draw(5, 8, seed=seed), PLACES, generator=stream()))
    spread = np.std([each.value for each in found])
    assert np.mean([each.stderr for each in found]) == pytest.approx(spread, rel=0.25)


def test_null_has_the_moments_of_trainings_in_random_orders():
    """Each training is permuted by itself: the variance of the mean is 1 / ((n - 1) trainings)."""
    same = draw(8, seed=3).expand(4, 8)
    found = rank_order(same, PLACES, generator=stream())
    assert found.null_spread == pytest.approx(1 / math.sqrt(7 * 4), rel=0.05)
    assert abs(found.null) < 3 * found.null_stderr
    assert found.df == 3


def test_p_of_an_order_is_that_of_all_orders_of_two_trainings():
    """All 24^2 pairs of orders of four places, with ties in one training."""
    values = torch.tensor([[1.0, 2.0, 4.0, 3.0], [1.0, 1.0, 2.0, 5.0]], **HOST)
    places = torch.arange(4, **HOST)
    found = rank_order(values, places, generator=stream())
    singles = []
    for row in values:
        orders = itertools.permutations(row.tolist())
        singles.append([stats.spearmanr(order, places).statistic for order in orders])
    means = np.add.outer(*singles).ravel() / 2
    exact = (np.abs(means) >= found.value - 1e-9).mean()
    assert 0.01 < exact < 0.1
    assert found.p == pytest.approx(exact, abs=4 * math.sqrt(exact / 4999))


def test_p_of_one_training_is_exact():
    """It had none: with a spread of 1 / sqrt(n - 1), 1 over six places was 2.2 errors."""
    found = rank_order(PLACES[None, :6], PLACES[:6], generator=stream())
    assert found.p == pytest.approx(2 / math.factorial(6)) and found.df is None


def test_few_trainings_in_no_order_are_rarely_significant():
    """200 times three trainings of six places; by their error alone 10 % were beyond 1 %."""
    places = PLACES[:6]
    found = [rank_order(draw(3, 6, seed=n), places, generator=stream(n)).p for n in range(200)]
    assert np.mean(np.array(found) <= 0.01) <= 0.03
    assert np.mean(np.array(found) <= 0.5) == pytest.approx(0.5, abs=0.1)


def test_one_training_has_the_error_of_its_pairs():
    row = PLACES + draw(8)
    found = rank_order(row[None], PLACES, generator=stream())
    expected = statistics.rank_correlation(row, PLACES, generator=stream())
    assert (found.value, found.stderr) == pytest.approx((expected.value, expected.stderr))
    assert found.over == "positions" and found.count == 8


@pytest.mark.parametrize("values", [torch.ones(2, 4, **HOST), torch.ones(2, 2, **HOST)])
def test_what_has_no_ranks_has_no_order(values):
    assert rank_order(values, torch.arange(values.shape[1], **HOST), generator=stream()) is None


def test_resolution_is_seen_where_all_numbers_are_equal():
    assert mean_with_resolution([80.0] * 3, 10.0) == (80.0, pytest.approx(10 / 6))
    assert mean_with_resolution([80.0], 10.0) == (80.0, None)


def test_resolution_error_is_the_spread_of_rounded_means():
    exact = 100 + 4 * np.random.default_rng(0).standard_normal((4000, 5))
    found = [mean_with_resolution(row, 10.0) for row in 10 * np.round(exact / 10)]
    means, errors = np.array(found).T
    assert errors.mean() == pytest.approx(means.std(), rel=0.3)


def test_share_is_the_projection_and_leakage_has_none():
    z = torch.arange(32, **HOST) / 32
    slow, fast = torch.sin(2 * math.pi * z + 0.3), torch.sin(2 * math.pi * 5 * z - 1.0)
    target = 0.1 * slow + fast
    leaking = 0.03 * slow + 0.5 * fast + 0.2 * torch.cos(2 * math.pi * z + 0.3)
    found = learnt_share(leaking, target, [1, 5])
    torch.testing.assert_close(found, torch.tensor([0.3, 0.5], **HOST))
    # the amplitude over the target's would have called the slow wave more than learnt
    amplitude = 2 * torch.fft.rfft(leaking).abs()[1] / 32 / 0.1
    assert float(amplitude) > 2


def test_mean_over_training_and_first_fit():
    steps = torch.tensor([0, 10, 20], device="cpu")
    shares = torch.tensor([[0.0, 0.0], [0.5, 1.0], [1.0, 1.0]], **HOST)
    assert mean_over_training(shares).tolist() == [0.5, 0.75]
    assert first_fit(shares, steps, 0.8).tolist() == [20.0, 10.0]
    assert first_fit(shares[:2], steps, 0.8)[0].isnan()


def pairs_of(ends):
    return np.array([(i, j) for i in range(ends) for j in range(i)])


def test_error_over_shared_ends_is_the_spread_over_draws_of_ends():
    """An end that is bad spoils all of its pairs: pairs alone give less than half of the spread."""
    found = []
    for seed in range(300):
        bad = np.random.default_rng(seed).uniform(size=12) < 0.3
        ends = pairs_of(12)
        found.append(probe.share_and_stderr(~bad[ends].any(1), ends))
    shares, errors = np.array(found).T
    spread = shares.std()
    naive = statistics.binomial_stderr(float(shares.mean()), len(pairs_of(12)))
    assert 0.7 < errors.mean() / spread < 1.5 and naive < 0.5 * spread


def test_certain_shares_have_the_error_of_half_a_pair():
    share, stderr = probe.share_and_stderr(np.ones(10, dtype=bool), pairs_of(5))
    assert share == 1.0 and stderr == pytest.approx(statistics.binomial_stderr(1.0, 10))
