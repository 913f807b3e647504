"""The error of a cosine of two sampled moments, also where it cannot be larger."""

import math

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_nad.estimators import gradient_covariance
from penchant_nad.nad_agreement.probe import Pair, _corr_of_groups
from penchant_nad.nad_agreement.second_order_jackknife import second_order_jackknife
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
        corr = _corr_of_groups(pair)
        plain = jackknife(corr(1 - np.eye(groups)))
        ours = second_order_jackknife(corr, groups).stderr
        found.append((float(corr(np.ones(groups))), plain**2, ours**2))
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
    values = np.random.default_rng(0).normal(size=7)
    found = second_order_jackknife(lambda used: mean(values, used), 7)
    assert found.stderr == pytest.approx(values.std(ddof=1) / math.sqrt(7))
    assert found.pairs < 1e-15  # rounding


@pytest.mark.parametrize("groups", [4, 7])
def test_products_alone_are_counted_once(groups):
    """A mean of independent products: no group has an effect by itself."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(1000):
        products = np.triu(random.normal(size=(groups, groups)), 1)

        def statistic(used, products=products):
            count = used.sum(-1)
            return np.einsum("...i,ij,...j", used, products, used) / (count * (count - 1) / 2)

        found.append(second_order_jackknife(statistic, groups))
    found = np.array(found)
    exact = np.array([0.0, 2 / (groups * (groups - 1))])
    away = (found.mean(0) - exact) / (found.std(0) / math.sqrt(len(found)))
    assert abs(away).max() < 3.1  # the 1 % point of four comparisons is 3.0


def test_too_few_groups_and_nothing_to_correlate():
    def nothing(used):
        return np.full(used.shape[:-1], math.nan)

    with pytest.raises(ValueError, match="at least 4 groups, found 3"):
        second_order_jackknife(nothing, 3)
    assert math.isnan(second_order_jackknife(nothing, 4).stderr)


def test_every_group_has_a_point_of_its_own_which_both_estimators_share(monkeypatch):
    """With one point for all groups, leaving groups out would not show what the point does."""
    points = []

    def noted(options, context, point=gradient_covariance.shared_point):
        points.append(point(options, context))
        return points[-1]

    monkeypatch.setattr(gradient_covariance, "shared_point", noted)
    like = {"name": "gradient-covariance", "method": "autograd"}
    penchant.measure(
        "nad-agreement",
        architecture={"name": "import", "factory": testing.TINY},
        shape=(6,),
        outputs=1,
        networks=8,
        groups=4,
        estimators={"directions": [like, like]},
        executor="serial",
    )
    first, second = torch.stack(points).unflatten(0, (2, 4))
    assert torch.equal(first, second)
    assert len(first.unique(dim=0)) == 4
