"""Delta and G against exact answers: linear regression, a linear convolution (theorem 3.2), a ReLU layer (theorem 3.1), appendix A.10."""

import math

import numpy as np
import penchant
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from torch import nn

INPUTS = 8


def samples():
    generator = torch.Generator(device="cpu").manual_seed(3)
    inputs = torch.randn(12, INPUTS, generator=generator) * torch.linspace(0.3, 1.5, INPUTS)
    labels = torch.randn(12, generator=generator)
    return (inputs, labels), (inputs, labels)


S = (samples()[0][0].double().T @ samples()[0][0].double()).numpy()


class ReluLayer(nn.Module):
    """n hidden ReLU units with their own standard deviations: readout s_w, weights s_p."""

    def __init__(self, units, s_w, s_p):
        super().__init__()
        self.hidden = nn.Linear(INPUTS, units, bias=False)
        self.readout = nn.Linear(units, 1, bias=False)
        nn.init.normal_(self.hidden.weight, 0.0, s_p)
        nn.init.normal_(self.readout.weight, 0.0, s_w)

    def forward(self, x):
        return self.readout(torch.relu(self.hidden(x)))


def relu_evolution(n, s_w, s_p, S):
    """D of theorem 3.1, exact for any width and input dimension (the paper's proof keeps the leading terms only)."""
    D = len(S)

    def mean(function):
        weight = quad(lambda t: math.sin(t) ** (D - 2), 0, math.pi)[0]
        return quad(lambda t: function(t) * math.sin(t) ** (D - 2), 0, math.pi)[0] / weight

    def p(t):
        return (math.pi - t) / (2 * math.pi)

    def q(t):
        return p(t) + math.sin(t) * math.cos(t) / (2 * math.pi)

    a, c = mean(lambda t: q(t) ** 2), mean(lambda t: p(t) * q(t))
    b = mean(lambda t: math.sin(t) ** 4 / (4 * math.pi**2 * (D - 1)))
    eye, trace = np.eye(D), np.trace(S)
    first = n * (n - 1) * s_w**2 * s_p**4 * ((a - b) * S + b * trace * eye) + (
        n / 4
    ) * s_w**2 * s_p**4 * (2 * S + trace * eye)
    return -(first + (3 * n / 4) * s_w**4 * s_p**2 * S + n * (n - 1) * s_w**4 * s_p**2 * c * S)


def convolution_evolution(n, s_w, s_p, kernel, S):
    """D of theorem 3.2, exact for any number of channels."""
    k = len(S) - kernel + 1
    P = np.zeros((len(S), kernel))
    for position in range(k):
        P[position + np.arange(kernel), np.arange(kernel)] += 1
    A, projector = P.T @ S @ P, P @ P.T
    inner = (n * (n + 1) * s_w**2 * s_p**4 + n * (n + 2) * s_w**4 * s_p**2) * P @ A @ P.T
    return -(inner + n * s_w**2 * s_p**4 * np.trace(A) * projector) / k**4


def evolution(architecture, networks, **options):
    return penchant.measure(
        "geometry-evolution",
        architecture=architecture,
        dataset=samples,
        executor="serial",
        figures=False,
        networks=networks,
        seed=5,
        **options,
    )


def z_scores(result, exact):
    """Entries of a symmetric matrix in units of their standard errors."""
    upper = np.triu_indices(len(exact))
    return (result.arrays["evolution"][upper] - exact[upper]) / result.arrays["evolution-stderr"][
        upper
    ]


def corrected_point(count):
    """The two-sided 1 % point, corrected for the number of comparisons."""
    return norm.ppf(1 - 0.005 / count)


def exact_case(name):
    """An architecture and its exact Delta = D + D^T."""
    if name == "linear-regression":
        return {
            "name": "logistic",
            "bias": False,
            "initialization": "gaussian",
            "weight_std": 0.7,
        }, -2 * 0.49 * S
    kind, _, width = name.partition("-")
    n = int(width)
    if kind == "convolution":  # in the theorem, w are the readout's weights and p the kernel's
        architecture = {
            "name": "linear-conv",
            "channels": n,
            "kernel": 3,
            "weight_std": 0.8,
            "readout_std": 1.3,
        }
        return architecture, 2 * convolution_evolution(n, 1.3, 0.8, 3, S)
    return (lambda: ReluLayer(n, 1.3, 0.8)), 2 * relu_evolution(n, 1.3, 0.8, S)


NAMES = [
    "linear-regression",
    "convolution-1",
    "convolution-3",
    "convolution-16",
    "relu-1",
    "relu-3",
    "relu-16",
]


@pytest.mark.parametrize("name", ["linear-regression", "convolution-3", "relu-3"])
def test_evolution_equals_its_closed_form(name):
    architecture, exact = exact_case(name)
    z = z_scores(evolution(architecture, 600), exact)
    assert np.abs(z).max() < corrected_point(len(z))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_relative_error_falls_as_one_over_root_networks(name):
    architecture, exact = exact_case(name)
    few, many = (evolution(architecture, networks) for networks in (5000, 20000))
    z, size = z_scores(many, exact), np.linalg.norm(exact)
    assert np.abs(z).max() < corrected_point(len(z))
    assert np.abs(z_scores(many, 1.2 * exact)).max() > corrected_point(
        len(z)
    )  # a wrong factor would be seen
    expected = [np.linalg.norm(result.arrays["evolution-stderr"]) / size for result in (few, many)]
    error = np.linalg.norm(many.arrays["evolution"] - exact) / size
    scale = (many.arrays["evolution"] * exact).sum() / size**2
    assert abs(scale - 1) < 0.05 and error < 3 * expected[1]
    if (
        name != "relu-1"
    ):  # one unit scatters most: (E|Delta_1|^2 / |Delta|^2 / 20000)^(1/2) is at least 0.05 for any data
        assert error < 0.05
    assert 1.6 < expected[0] / expected[1] < 2.5


class PooledConvolution(nn.Module):
    """Appendix A.10: a convolution of two taps and an average pool on three inputs."""

    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.empty(2))
        nn.init.normal_(self.kernel, 0.0, 0.7)

    def forward(self, x):
        taps = x[:, :2] * self.kernel[0] + x[:, 1:] * self.kernel[1]
        return taps.mean(1, keepdim=True)


def test_pooled_convolution_of_three_inputs_has_two_directions():
    result = penchant.measure(
        "average-geometry",
        architecture=lambda: PooledConvolution(),
        shape=(3,),
        executor="serial",
        figures=False,
        networks=1500,
    )
    exact = 0.49 * np.array([3 / 4, 1 / 4])
    values, stderr = result.arrays["eigenvalues"], result.arrays["eigenvalues-stderr"]
    assert (np.abs(values[:2] - exact) < 4 * stderr[:2]).all()
    assert result.quantities["rank"].value == 2
    assert abs(values[2]) < 1e-12 and "condition" in result.missing
    matrix = 0.49 / 4 * np.array([[1, 1, 0], [1, 2, 1], [0, 1, 1]])  # the paper prints twice this
    z = (result.arrays["geometry"] - matrix) / result.arrays["geometry-stderr"]
    assert np.abs(z).max() < corrected_point(6)


def test_labels_change_nothing_where_the_last_layer_has_mean_zero():
    result = evolution(lambda: ReluLayer(4, 1.0, 1.0), 600)
    effect = result.quantities["label-effect"]
    assert abs(effect.value) < 4 * effect.stderr
    upper = np.triu_indices(INPUTS)
    z = (result.arrays["label-difference"] / result.arrays["label-difference-stderr"])[upper]
    assert np.abs(z).max() < corrected_point(len(z))


class Shifted(ReluLayer):
    """A readout whose mean is not zero."""

    def __init__(self):
        super().__init__(4, 1.0, 1.0)
        nn.init.normal_(self.readout.weight, 1.0, 1.0)


def test_labels_matter_where_the_last_layer_has_another_mean():
    effect = evolution(lambda: Shifted(), 600).quantities["label-effect"]
    assert effect.value > 4 * effect.stderr
