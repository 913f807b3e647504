"""The error of a cosine of two sampled moments, also where it cannot be larger."""

import math

import numpy as np
import pytest
import torch
from penchant_nad.numerics.two_sample_jackknife import two_sample_jackknife
from penchant_nad.probes.nad_agreement import Pair, _corr_stderr
from penchant_numerics.correlation import corr_of_means
from penchant_numerics.statistics import jackknife

HOST = {"device": "cpu", "dtype": torch.float64}


def moments(eigenvalues, groups, networks, generator):
    """Second moments (groups, D, D) of normal gradients."""
    rows = torch.randn(groups, networks, len(eigenvalues), generator=generator, **HOST)
    rows *= eigenvalues.sqrt()
    return rows.transpose(1, 2) @ rows / networks


def simulated(first, second, *, simulations, groups=8):
    """Values over simulations, with the squares of both errors: plain jackknife and ours."""
    generator = torch.Generator("cpu").manual_seed(0)
    found = []
    for _ in range(simulations):
        pair = Pair(
            moments(first, groups, 8, generator),
            moments(second, groups, 8, generator),
            rank=len(first),
        )
        left_out = [pair.without(group) for group in range(groups)]
        plain = jackknife([corr_of_means(each.first, each.second) for each in left_out])
        value = float(corr_of_means(pair.first, pair.second))
        found.append((value, plain**2, _corr_stderr(pair) ** 2))
    values, plain, ours = np.array(found).T
    spread = values.std(ddof=1)
    return spread / math.sqrt(plain.mean()), spread / math.sqrt(ours.mean())


@pytest.mark.parametrize("second", ["the same", "another"])
def test_errors_of_a_cosine_are_its_spread(second):
    """Spread over printed error; 300 simulations know a spread to 4 %, the bounds are 3 of it."""
    eigenvalues = 1 / torch.arange(1, 13, **HOST)
    other = eigenvalues if second == "the same" else torch.ones(12, **HOST)
    plain, ours = simulated(eigenvalues, other, simulations=300)
    # L that is not below 0 makes the error of a cosine of 1 larger by about a sixth
    assert 0.86 - 0.12 < ours < 1.12
    if second == "the same":
        assert plain < 0.75  # pairs counted twice: 1 / sqrt(2) with many groups


def mean(values, used):
    return (values * used).sum(-1) / used.sum(-1)


def test_linear_statistics_have_the_errors_of_means():
    random = np.random.default_rng(0)
    first, second = random.normal(size=(2, 7))

    def difference(used, used_second):
        return mean(first, used) - mean(second, used_second)

    found = two_sample_jackknife(difference, 7)
    expected = math.hypot(first.std(ddof=1), second.std(ddof=1)) / math.sqrt(7)
    assert found.stderr == pytest.approx(expected)
    assert found.within + found.across < 1e-20


@pytest.mark.parametrize("groups", [4, 7])
def test_products_alone_are_counted_once(groups):
    """A mean of independent products: neither sample has an effect by itself."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(1000):
        across = random.normal(size=(groups, groups))
        within = np.triu(random.normal(size=(groups, groups)), 1)

        def statistic(used, used_second, across=across, within=within):
            count = used.sum(-1)
            pairs = np.einsum("...i,ij,...j", used, within, used) / (count * (count - 1) / 2)
            both = np.einsum("...i,ij,...j", used, across, used_second)
            return pairs + both / (count * used_second.sum(-1))

        found.append(two_sample_jackknife(statistic, groups))
    found = np.array(found)
    exact = np.array([0.0, 2 / (groups * (groups - 1)), 1 / groups**2])
    away = (found.mean(0) - exact) / (found.std(0) / math.sqrt(len(found)))
    assert abs(away).max() < 3.3  # the 1 % point of six comparisons is 3.2


def test_too_few_groups_and_nothing_to_correlate():
    def nothing(used, used_second):
        return np.full(used.shape[:-1], math.nan)

    with pytest.raises(ValueError, match="at least 4 groups, found 3"):
        two_sample_jackknife(nothing, 3)
    assert math.isnan(two_sample_jackknife(nothing, 4).stderr)
