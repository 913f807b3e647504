"""Mutual information without experiment and run, against closed forms."""

import math

import numpy as np
import penchant
import pytest
import torch
from penchant_mine.standalone import mutual_information
from scipy import integrate, stats

RHO = 0.8
TRUTH = -0.5 * math.log(1 - RHO**2)


def pair(samples=2000, rho=RHO):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(samples, generator=generator)
    noise = torch.randn(samples, generator=generator)
    return x, rho * x + math.sqrt(1 - rho**2) * noise


@pytest.mark.parametrize("estimator", ["ksg", "gaussian"])
def test_a_gaussian_pair_has_the_information_of_its_correlation(estimator):
    found = mutual_information(*pair(), estimator=estimator)
    assert abs(found.value - TRUTH) < 4 * found.stderr < 0.3
    assert abs(found.null) < 0.03


def test_the_closed_form_is_the_integral_of_the_density():
    grid = np.linspace(-6, 6, 121)
    x, z = np.meshgrid(grid, grid)
    density = stats.multivariate_normal(cov=[[1, RHO], [RHO, 1]]).pdf(np.stack([x, z], -1))
    values = density * np.log(density / (stats.norm.pdf(x) * stats.norm.pdf(z)))
    found = integrate.trapezoid(integrate.trapezoid(values, grid), grid)
    assert found == pytest.approx(TRUTH, rel=1e-3)


def test_networks_are_trained_without_a_run():
    options = {"steps": 80, "batch": 64, "learning_rate": 2e-3, "trainings": 2, "null_trainings": 0}
    found = mutual_information(*pair(1000), estimator="mine", **options)
    assert abs(found.value - TRUTH) < max(4 * found.stderr, 0.1)
    other = mutual_information(*pair(1000), estimator="mine", seed=1, **options)
    assert found.value != other.value


def test_arrays_are_taken_and_mistakes_told():
    x, z = (each.numpy() for each in pair(200))
    assert mutual_information(x[:, None], z, shuffles=0).null is None
    with pytest.raises(
        penchant.Error, match="estimator must be one of binned, gaussian, .* found 'kgs'"
    ):
        mutual_information(x, z, estimator="kgs")
    with pytest.raises(
        penchant.Error, match="ksg has no option 'neighbors'; did you mean 'neighbours'"
    ):
        mutual_information(x, z, neighbors=3)
    with pytest.raises(penchant.Error, match="network must be one of statistics-perceptron"):
        mutual_information(x, z, estimator="mine", network="lenet")
    with pytest.raises(penchant.Error, match="x has 200 samples and z has 100, expected pairs"):
        mutual_information(x, z[:100])
