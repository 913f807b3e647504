"""Rank correlation, its null and its errors, against scipy and closed forms."""

import math

import numpy as np
import pytest
import torch
from penchant_spectral_bias.numerics.rank_correlation import (
    jackknife,
    mean_and_error,
    permutation_null,
    ranks,
    spearman,
)
from scipy import stats

HOST = {"device": "cpu", "dtype": torch.float64}


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator(device="cpu").manual_seed(seed), **HOST)


@pytest.mark.parametrize("ties", [False, True])
def test_spearman_is_scipys(ties):
    x, y = draw(30, seed=1), draw(30, seed=2)
    y = (x + y).round() if ties else x + y
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, rel=1e-12)
    np.testing.assert_allclose(ranks(y).numpy(), stats.rankdata(y.numpy()))


def test_constant_values_have_no_correlation():
    assert math.isnan(spearman(torch.ones(4, **HOST), draw(4)))


def test_null_has_the_moments_of_a_permutation():
    generator = torch.Generator(device="cpu").manual_seed(0)
    mean, spread = permutation_null(
        draw(8, seed=1), draw(8, seed=2), generator=generator, draws=4000
    )
    assert abs(mean) < stats.norm.isf(0.005) / math.sqrt(7 * 4000)
    assert spread == pytest.approx(1 / math.sqrt(7), rel=0.05)


def test_jackknife_of_a_mean_is_its_standard_error():
    rows = draw(12, 1)
    expected = float(rows.std() / math.sqrt(12))
    assert jackknife(rows, lambda mean: float(mean[0])) == pytest.approx(expected, rel=1e-12)
    assert jackknife(rows[:1], lambda mean: float(mean[0])) is None


def test_mean_and_error_are_those_of_numpy():
    rows = draw(7, 3, 2)
    mean, error = mean_and_error(rows)
    np.testing.assert_allclose(mean.numpy(), rows.numpy().mean(0))
    np.testing.assert_allclose(error.numpy(), rows.numpy().std(0, ddof=1) / math.sqrt(7))
    assert not mean_and_error(rows[:1])[1].any()
