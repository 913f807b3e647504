"""The probe `tangent-eigenfunctions` and the dataset `disk`."""

import math

import numpy as np
import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_numerics.curvature import loss_function
from penchant_numerics.jacobians import Outputs
from penchant_numerics.layers import tangent_kernel
from penchant_tangent.shared.mean_rank_correlation import mean_rank_correlation
from penchant_tangent.tangent_eigenfunctions.probe import (
    label_share,
    learning_speeds,
    random_label_share,
    run,
)
from scipy import stats
from torch import nn

FULL = {"steps": 20, "batch": 0, "learning_rate": 0.5}


def measured(folder, **arguments):
    context = testing.context("tangent-eigenfunctions", folder, **{"training": FULL, **arguments})
    return context, run(context.options, context)


def test_half_of_the_square_is_inside_the_disk():
    data = testing.dataset("disk:train=4000")
    inside = data.train.labels.double().mean()
    assert abs(float(inside) - 0.5) < 4 * 0.5 / 4000**0.5
    radii = data.train.inputs.norm(dim=1)
    assert bool((radii[data.train.labels == 1] <= math.sqrt(2 / math.pi)).all())
    assert float(data.train.inputs.abs().max()) <= 1


@pytest.mark.parametrize("loss", ["cross-entropy", "squared-error"])
def test_the_error_of_the_lemma_falls_with_the_step(loss):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 3)).double()
        inputs = torch.randn(9, 2, dtype=torch.float64)
    labels = torch.arange(9) % 3
    K = tangent_kernel(network, inputs)
    errors = []
    for rate in (0.02, 0.01):
        found = learning_speeds(
            Outputs(network), inputs, labels, K, loss=loss_function(loss), rate=rate
        )
        errors.append(rate * float((found.measured - found.expected).norm()))
    # the change itself is off by the square of the step
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)


def test_linear_regression_follows_the_lemma_exactly():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        network = nn.Linear(3, 1).double()
        inputs = torch.randn(6, 3, dtype=torch.float64)
        labels = torch.randn(6, 1, dtype=torch.float64)
    K = tangent_kernel(network, inputs)
    loss = loss_function("squared-error")
    found = learning_speeds(Outputs(network), inputs, labels, K, loss=loss, rate=0.3)
    assert found.error < 1e-12


def test_the_share_of_labels_in_a_span():
    functions = torch.eye(4, 2, dtype=torch.float64)
    inside = torch.tensor([1.0, -1.0, 0.0, 0.0], dtype=torch.float64)
    assert label_share(functions, inside) == pytest.approx(1)
    beside = torch.tensor([0.0, 0.0, 1.0, -1.0], dtype=torch.float64)
    assert label_share(functions, beside) == pytest.approx(0, abs=1e-12)


def test_labels_in_random_order_have_the_share_of_chance():
    generator = torch.Generator().manual_seed(0)
    functions = torch.randn(30, 4, generator=generator, dtype=torch.float64)
    labels = 2.0 * (torch.arange(30) % 2).double() - 1
    shares = []
    for _ in range(2000):
        order = torch.randperm(30, generator=generator)
        shares.append(label_share(functions, labels[order]))
    null = random_label_share(4, 30)
    assert np.mean(shares) == pytest.approx(null["null"], abs=4 * np.std(shares) / 2000**0.5)
    assert np.std(shares) == pytest.approx(null["null_spread"], rel=0.1)


def test_a_linear_model_in_the_plane_has_two_functions_and_keeps_them(tmp_path):
    arguments = {"architecture": "logistic", "dataset": "disk:train=30,test=10", "dtype": "float64"}
    options = {"grid_points": 6, "leading": 2, "eval_steps": [0, 20], "trainings": 2}
    _, result = measured(tmp_path, **arguments, **options)
    functions = result.arrays["eigenfunctions"]
    # coordinates of a centred grid: two equal eigenvalues, the same at every step
    assert np.allclose(result.arrays["eigenvalues"][:, 0], result.arrays["eigenvalues"][:, 1])
    grid = result.arrays["grid"] - result.arrays["grid"].mean(0)
    outside = functions[1] - functions[1] @ grid @ np.linalg.pinv(grid)
    assert np.abs(outside).max() < 1e-9


def test_eigenvectors_on_a_line_vary_faster_the_later_they_come(tmp_path):
    arguments = {"architecture": "mlp:widths=[64,64]", "dataset": "sinusoids", "dtype": "float64"}
    options = {"grid_points": 30, "leading": 10, "eval_steps": [0], "trainings": 2}
    training = {"steps": 0, "loss": "squared-error"}
    _, result = measured(tmp_path, **arguments, **options, training=training)
    order = result.quantities["frequency-correlation"]
    assert order.value > 0.7
    assert order.p < 0.05
    assert order.null_spread == pytest.approx(1 / 3, rel=0.1)
    assert result.arrays["amplitudes"].shape == (1, 10, 16)


def test_repetitions_of_one_order_are_one_order():
    generator = torch.Generator().manual_seed(0)
    places = np.broadcast_to(np.arange(3.0), (50, 3))
    found = mean_rank_correlation(places, places**2, generator=generator)
    order = penchant.Quantity.of(found.values, over="trainings", null=found.null())
    assert (order.value, order.null_spread) == (1, pytest.approx(2**-0.5, rel=0.05))
    # two of six orders are as far from none
    assert order.p == pytest.approx(1 / 3, abs=0.05)


def test_rank_correlations_are_those_of_scipy_in_every_repetition():
    x = np.random.default_rng(0).integers(0, 5, (6, 9))
    y = x + np.random.default_rng(1).normal(size=(6, 9))
    found = mean_rank_correlation(x, y, generator=torch.Generator().manual_seed(0))
    expected = [stats.spearmanr(a, b).statistic for a, b in zip(x, y)]
    assert np.allclose(found.values, expected)
    # one permutation of all repetitions, by hand
    keys = torch.rand(999, 9, generator=torch.Generator().manual_seed(0))
    order = keys[7].argsort().numpy()
    permuted = [stats.spearmanr(a, b[order]).statistic for a, b in zip(x, y)]
    assert found.null_draws[7] == pytest.approx(np.mean(permuted))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": "two-blobs", "eval_steps": [21]}, "eval_steps must be at most 20, found 21"),
        ({"dataset": "gaussian:input_shape=[3]"}, "one or two components, found 3"),
    ],
)
def test_what_has_no_picture_is_refused(options, message, tmp_path):
    with pytest.raises(penchant.Error, match=message):
        measured(tmp_path, **options)


def in_the_plane(generator):
    """Points of a square, all of one class in the training split."""
    inputs = torch.rand(20, 2, generator=generator, device="cpu")
    labels = torch.arange(20, device="cpu") // 12
    return (inputs[:12], labels[:12]), (inputs[12:], labels[12:])


def of_zeros(shape, outputs):
    network = testing.tiny_network(shape, outputs)
    for value in network.parameters():
        nn.init.zeros_(value)
    return network


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"architecture": {"name": "import", "factory": of_zeros}}, "kernel is zero to rounding"),
        ({"dataset": {"name": "import", "factory": in_the_plane}}, "labels of 12 samples are all"),
    ],
)
def test_what_has_no_eigenfunctions_is_refused(arguments, message, tmp_path):
    small = {"dataset": "disk:train=12,test=4", "grid_points": 4, "leading": 2, "trainings": 2}
    with pytest.raises(penchant.Error, match=message):
        measured(tmp_path, **{**small, "eval_steps": [0], "training": {"steps": 0}, **arguments})


def test_deep_networks_have_the_same_numbers_in_single_and_double_precision(tmp_path):
    widths = [6] * 14
    mlp = {"architecture": {"name": "mlp", "widths": widths, "activation": "tanh"}}
    small = {"dataset": "disk:train=20,test=4", "grid_points": 4, "leading": 3, "trainings": 2}
    found = []
    for dtype in ("float32", "float64"):
        drawn = {"eval_steps": [0], "training": {"steps": 0}, "dtype": dtype}
        found.append(measured(tmp_path, **mlp, **small, **drawn)[1].quantities)
    single, double = found
    for name, quantity in double.items():
        assert single[name].value == pytest.approx(quantity.value, rel=1e-3), name
