"""Lines and planes against closed forms, dense derivatives and networks moved by hand."""

import copy
import math

import penchant
import penchant_testing as testing
import pytest
import torch
from penchant_landscape.learning_coefficient import figures as coefficient_figures
from penchant_landscape.loss_plane.probe import _barrier, filter_normalised
from penchant_landscape.shared.line_losses import Landscape, Measured, quadratic_model
from penchant_landscape.shared.network_energy import (
    NetworkEnergy,
    sample_losses,
    with_stacked_linear,
)
from penchant_numerics.data import Samples
from penchant_numerics.linear_algebra import leading_pairs
from torch import nn


def generator(seed=0):
    return torch.Generator("cpu").manual_seed(seed)


def small(loss="cross-entropy", *, normalised=False):
    """A network and samples in double precision."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        layers = [nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)]
        if normalised:
            layers.insert(1, nn.BatchNorm1d(5))
        network = nn.Sequential(*layers).double().eval()
    inputs = torch.randn(30, 4, generator=generator(), device="cpu", dtype=torch.float64)
    labels = torch.randint(3, (30,), generator=generator(), device="cpu")
    return network, Samples(inputs, labels)


def landscape_of(network, samples, loss="cross-entropy", batch_norm="running"):
    return Landscape(network, samples, loss=loss, batch_norm=batch_norm, calibration=samples.inputs)


def moved_by_hand(network, samples, row):
    """The mean loss of a copy whose parameters are written one by one."""
    moved = copy.deepcopy(network).requires_grad_(False)
    nn.utils.vector_to_parameters(row, moved.parameters())
    return float(nn.functional.cross_entropy(moved(samples.inputs), samples.labels))


def test_points_are_those_of_networks_moved_by_hand():
    network, samples = small()
    landscape = landscape_of(network, samples)
    rows = filter_normalised(landscape.parameters, 3, generator=generator(4))
    points = [landscape.centre + row for row in rows]
    measured = landscape.measure(points).losses.mean(1)
    exact = [moved_by_hand(network, samples, point) for point in points]
    assert measured.tolist() == pytest.approx(exact, abs=1e-12)


def test_the_quadratic_model_is_that_of_dense_derivatives():
    network, samples = small()
    landscape = landscape_of(network, samples)

    def loss(row):
        named = landscape.layout.named(row)
        outputs = torch.func.functional_call(network, named, (samples.inputs,))
        return nn.functional.cross_entropy(outputs, samples.labels)

    gradient = torch.func.grad(loss)(landscape.centre)
    H = torch.func.hessian(loss)(landscape.centre)
    rows = filter_normalised(landscape.parameters, 2, generator=generator(4))
    model = quadratic_model(0.5, landscape.gradient(), landscape.hessian(), rows)
    assert torch.allclose(model.slopes, rows @ gradient, atol=1e-12)
    assert torch.allclose(model.curvatures, ((rows @ H) * rows).sum(1), atol=1e-12)
    pairs = leading_pairs(landscape.hessian(), 2)
    assert pairs.values.tolist() == pytest.approx(torch.linalg.eigvalsh(H).flip(0)[:2].tolist())
    # and of differences: what is left over falls with the cube of the distance
    here = loss(landscape.centre)
    left = []
    for size in (1e-2, 5e-3):
        exact = loss(landscape.centre + size * rows[0])
        predicted = here + size * model.slopes[0] + size**2 / 2 * model.curvatures[0]
        left.append(abs(float(exact - predicted)))
    assert left[0] / left[1] == pytest.approx(8, rel=0.1)


@pytest.mark.parametrize("loss", ["cross-entropy", "squared-error"])
def test_losses_of_samples_have_the_mean_that_is_trained(loss):
    from penchant_numerics.curvature import loss_function

    network, samples = small()
    outputs = network(samples.inputs).detach()
    each = sample_losses(outputs, samples.labels, loss)
    assert float(each.mean()) == pytest.approx(float(loss_function(loss)(outputs, samples.labels)))


@pytest.mark.parametrize("batch", [None, 30])
def test_energies_are_those_of_single_networks(batch):
    network, samples = small()
    energy = NetworkEnergy(
        network, samples, loss="cross-entropy", batch=batch, generator=generator()
    )
    shifts = torch.randn(3, len(energy.centre), generator=generator(1), device="cpu").double()
    weights = energy.centre + 0.1 * shifts
    energy(energy.centre + shifts)  # operations are recorded here, and played with other weights
    excess, gradient = energy(weights)
    here = moved_by_hand(network, samples, energy.centre)
    for number, row in enumerate(weights):
        exact = moved_by_hand(network, samples, row) - here
        assert float(excess.mean(0)[number]) == pytest.approx(exact, abs=1e-12)
        moved = copy.deepcopy(network)
        nn.utils.vector_to_parameters(row, moved.parameters())
        loss = nn.functional.cross_entropy(moved(samples.inputs), samples.labels)
        gradients = torch.autograd.grad(loss, list(moved.parameters()))
        dense = torch.cat([each.flatten() for each in gradients])
        assert torch.allclose(gradient[number], dense, atol=1e-12)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_stacked_linear_layers_are_those_of_single_networks(bias, shared):
    tokens = torch.randn(3, 6, 5, 4, generator=generator(), device="cpu", dtype=torch.float64)
    network = nn.Sequential(nn.Linear(4, 3, bias=bias), nn.Tanh(), nn.Linear(3, 2, bias=bias))
    network.double()
    weights = {}
    for name, value in network.named_parameters():
        drawn = torch.randn(3, *value.shape, generator=generator(2), device="cpu")
        weights[name] = drawn.double().requires_grad_()
    inputs = tokens[0] if shared else tokens
    axes = (0, None if shared else 0)
    stacked = with_stacked_linear(network)

    def outputs(of):
        call = lambda own, given: torch.func.functional_call(of, own, (given,))  # noqa: E731
        return torch.vmap(call, in_dims=axes)(weights, inputs)

    expected, found = outputs(network), outputs(stacked)
    assert torch.allclose(found, expected, atol=1e-12)
    leaves = list(weights.values())
    dense = torch.autograd.grad(expected.square().sum(), leaves)
    for gradient, exact in zip(torch.autograd.grad(found.square().sum(), leaves), dense):
        assert torch.allclose(gradient, exact, atol=1e-12)


@pytest.mark.parametrize("policy", ["running", "batch", "calibrated"])
def test_statistics_follow_the_policy(policy):
    from penchant_numerics.device import safe

    network, samples = small(normalised=True)
    network.requires_grad_(False)
    prepared = safe(network, batch_norm=policy, calibration=samples.inputs)
    landscape = landscape_of(prepared, samples, batch_norm=policy)
    point = 1.5 * landscape.centre
    measured = float(landscape.measure([point]).losses.mean())
    moved = copy.deepcopy(network)
    nn.utils.vector_to_parameters(point, moved.parameters())
    if policy != "running":
        # statistics of all samples: in training mode the batch is normalised by itself
        moved[1].train()
    exact = nn.functional.cross_entropy(moved(samples.inputs), samples.labels)
    tolerance = 2e-2 if policy == "calibrated" else 1e-10  # running variances are unbiased ones
    assert measured == pytest.approx(float(exact), rel=tolerance)


# ---- the probe


def linear(shape, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(4, outputs))


OPTIONS = {
    "dataset": {"name": "import", "factory": testing.tiny_samples},
    "training": {"steps": 20, "learning_rate": 0.05, "loss": "squared-error"},
    "samples": None,
    "random_directions": 3,
    "grid_points": 9,
    "plane_points": 3,
    "dtype": "float64",
}


def test_a_quadratic_loss_is_its_model_everywhere():
    result = penchant.measure("loss-plane", architecture=linear, **OPTIONS)
    arrays = result.arrays
    for kind in ("path", "random", "eigenvector"):
        assert arrays[f"{kind}-loss"] == pytest.approx(arrays[f"{kind}-quadratic"], rel=1e-9)
    assert result.quantities["quadratic-ratio"].value == pytest.approx(1, rel=1e-9)
    assert result.quantities["eigenvector-rise"].value == pytest.approx(1, rel=1e-9)
    # a parabola c a^2 lies c a (1 - a) below the line, least of all nearest to an end
    path = arrays["path-loss"][0]
    curvature = 2 * (path[0] + path[-1] - 2 * path[4])
    a = arrays["path-positions"]
    assert arrays["path-excess"][0] == pytest.approx(-curvature * a * (1 - a), abs=1e-9)
    barrier = result.quantities["barrier"]
    assert abs(barrier.value + curvature * 7 / 64) < 4 * barrier.stderr
    assert barrier.stderr < curvature * 7 / 64
    assert barrier.is_significant and barrier.value < 0


def test_a_network_has_no_barrier_to_itself():
    options = {**OPTIONS, "training": {"steps": 2, "learning_rate": 1e-30}}
    result = penchant.measure("loss-plane", architecture=testing.tiny_network, **options)
    assert abs(result.quantities["barrier"].value) < 1e-14
    assert abs(result.arrays["path-excess"]).max() < 1e-14
    assert not result.quantities["barrier"].is_significant


def test_even_grids_are_refused():
    with pytest.raises(penchant.Error, match="grid_points must be odd, found 8"):
        penchant.measure("loss-plane", architecture=linear, **{**OPTIONS, "grid_points": 8})


def zero_network(shape, outputs):
    network = testing.tiny_network(shape, outputs)
    for value in network.parameters():
        nn.init.zeros_(value)
    return network


def test_a_network_of_zero_weights_is_refused():
    with pytest.raises(penchant.Error, match="all filters of the network are zero"):
        penchant.measure("loss-plane", architecture=zero_network, **OPTIONS)


def test_a_batch_needs_a_step_size():
    with pytest.raises(penchant.Error, match="batch needs a step_size"):
        penchant.measure(
            "learning-coefficient", architecture=linear, dataset=OPTIONS["dataset"], batch=10
        )


def test_chains_that_have_not_converged_give_no_number():
    result = penchant.measure(
        "learning-coefficient",
        architecture=testing.tiny_network,
        dataset=OPTIONS["dataset"],
        training={"steps": 50, "learning_rate": 0.3},
        chain_steps=20,
        warmup=10,
        localisation=0.01,
    )
    assert result.quantities["learning-coefficient"].missing
    assert "learning-coefficient" in result.missing
    assert any("no learning coefficient at step 50" in text for text in result.warnings)
    assert "do not allow" in coefficient_figures.headline(result)


def null_scores(count, samples=200, points=9):
    """z of the barrier of losses without one: noise of samples around a straight line."""
    positions = torch.linspace(0, 1, points, device="cpu", dtype=torch.float64)
    own = generator(7)
    scores = []
    for _ in range(count):
        ends = torch.rand(2, samples, generator=own, device="cpu", dtype=torch.float64)
        shares = positions[:, None]
        noise = torch.randn(points, samples, generator=own, device="cpu", dtype=torch.float64)
        losses = (1 - shares) * ends[0] + shares * ends[1] + 0.1 * noise
        found = _barrier(Measured(losses, losses), positions, own)["barrier"]
        scores.append(found.value / found.stderr)
    return torch.tensor(scores, device="cpu")


def test_noise_is_not_taken_for_a_barrier():
    scores = null_scores(1000)
    assert abs(float(scores.mean())) < 3 * float(scores.std()) / 1000**0.5
    assert 0.9 < float(scores.std()) < 1.1
    assert float((scores.abs() > 2.6).double().mean()) <= 0.02


def regression():
    """A linear network at the minimum of the squared error, and its samples."""
    inputs = torch.randn(100, 3, generator=generator(), device="cpu", dtype=torch.float64)
    noise = torch.randn(100, 1, generator=generator(1), device="cpu", dtype=torch.float64)
    labels = inputs.sum(1, keepdim=True) + 2 + 0.3 * noise
    columns = torch.cat([inputs, torch.ones_like(labels)], 1)
    solution = torch.linalg.lstsq(columns, labels).solution
    network = nn.Linear(3, 1).double().requires_grad_(False)
    network.weight.copy_(solution[:3].T)
    network.bias.copy_(solution[3])
    return network, inputs, labels, columns


def test_a_regression_network_of_ones_own_is_measured_with_its_squared_error():
    network, inputs, labels, columns = regression()
    result = penchant.measure(
        "learning-coefficient",
        architecture=network,
        dataset=((inputs, labels), (inputs, labels)),
        dtype="float64",
        chain_steps=1000,
        warmup=500,
    )
    by_hand = (network(inputs) - labels).square().mean() / 2
    assert result.quantities["loss"].value == pytest.approx(float(by_hand), rel=1e-12)
    assert result.conventions["loss"].startswith("squared-error")

    # of a quadratic loss with the Hessian h, chains have the precision n beta h + gamma
    curvatures = torch.linalg.eigvalsh(columns.T @ columns / 100) * 100 / math.log(100)
    exact = float((curvatures / (curvatures + 10)).sum() / 2)
    localised = result.quantities["localised-coefficient"]
    assert abs(localised.value - exact) < 4 * localised.stderr < 0.4
