"""Critical sharpness against closed forms and dense derivatives, and what it costs."""

import math

import numpy as np
import penchant
import pytest
import torch
from penchant_landscape.critical_sharpness.first_rise import first_rise
from penchant_landscape.shared.line_losses import Landscape, curvature_along, random_units
from penchant_landscape.shared.network_energy import first_samples
from penchant_numerics.data import Samples
from torch import nn

EPS = 2.0**-52
SMALL = {
    "architecture": "mlp:widths=[6]",
    "dataset": "digits:per_class=6",
    "samples": 40,
    "random_directions": 3,
    "training": {"steps": 6, "learning_rate": 0.2, "momentum": 0.5},
}


def generator(seed=0):
    return torch.Generator("cpu").manual_seed(seed)


def network_and_samples(*, linear=False):
    """A network and samples in double precision."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        layers = [nn.Linear(4, 2)] if linear else [nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)]
        network = nn.Sequential(*layers).double().eval()
    inputs = torch.randn(30, 4, generator=generator(), device="cpu", dtype=torch.float64)
    labels = torch.randint(3, (30,), generator=generator(), device="cpu")
    if linear:
        labels = torch.randn(30, 2, generator=generator(2), device="cpu", dtype=torch.float64)
    return network, Samples(inputs, labels)


def along(landscape, direction):
    """Losses of samples by the distance along a direction."""
    return lambda t: landscape.measure([landscape.centre + t * direction]).losses[0]


def of(network, samples, loss):
    return Landscape(network, samples, loss=loss, batch_norm="running", calibration=samples.inputs)


def dense(landscape, loss):
    """Gradient and Hessian of the mean loss, by autodiff of a flat vector."""

    def mean_loss(row):
        named = landscape.layout.named(row)
        outputs = torch.func.functional_call(landscape.network, named, (landscape.samples.inputs,))
        return loss(outputs, landscape.samples.labels)

    return torch.func.grad(mean_loss)(landscape.centre), torch.func.hessian(mean_loss)(
        landscape.centre
    )


def half_squared_error(outputs, labels):
    return (outputs - labels).square().sum(1).mean() / 2


def test_a_quadratic_loss_has_the_curvature_along_the_gradient_in_closed_form():
    network, samples = network_and_samples(linear=True)
    landscape = of(network, samples, "squared-error")
    # the Hessian of half the squared error of W x + b is the second moment of (x, 1), twice
    ones = torch.ones(30, 1, device="cpu", dtype=torch.float64)
    features = torch.cat([samples.inputs, ones], dim=1)
    moment = features.T @ features / 30
    with torch.no_grad():
        errors = network(samples.inputs) - samples.labels
    G = errors.T @ features / 30  # (outputs, inputs and bias)
    expected = float((G @ moment * G).sum() / G.square().sum())
    gradient = landscape.gradient()
    assert float(gradient.norm()) == pytest.approx(float(G.norm()), rel=1e-12)
    unit = -gradient / gradient.norm()
    for start in (1e-4, 1.0, 1e4):
        rise = first_rise(along(landscape, unit), start, eps=EPS)
        assert rise.sharpness == pytest.approx(expected, rel=1e-9)
        # the critical rate is r / s
        assert rise.distance / rise.descent == pytest.approx(2 / expected, rel=1e-9)
        assert rise.descent == pytest.approx(float(gradient.norm()), rel=1e-9)


def test_small_steps_have_the_curvature_of_dense_derivatives():
    network, samples = network_and_samples()
    landscape = of(network, samples, "cross-entropy")
    gradient, H = dense(landscape, nn.functional.cross_entropy)
    assert torch.allclose(landscape.gradient(), gradient, atol=1e-14)
    # the flatter the direction, the smaller the step
    errors = []
    for share in (1e-4, 1e-5):
        (unit,) = random_units(1, gradient, generator=generator(5))
        flat = unit - gradient * (unit @ gradient) / (gradient @ gradient)
        flat = flat / flat.norm() - share * gradient / gradient.norm()
        flat = flat / flat.norm()
        rise = first_rise(along(landscape, flat), share, eps=EPS)
        curvature = float(flat @ H @ flat)
        errors.append(abs(rise.sharpness / curvature - 1))
        assert rise.descent == pytest.approx(-float(gradient @ flat), rel=0.01)
    assert errors[1] < 2e-3 and errors[1] < errors[0] / 5


def test_near_a_minimum_the_gradient_has_its_rayleigh_quotient():
    network, _ = network_and_samples()
    # too many random labels to fit
    inputs = torch.randn(400, 4, generator=generator(), device="cpu", dtype=torch.float64)
    samples = Samples(inputs, torch.randint(3, (400,), generator=generator(), device="cpu"))
    parameters = list(network.parameters())
    optimizer = torch.optim.LBFGS(parameters, max_iter=400, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(samples.inputs), samples.labels)
        loss.backward()
        return loss

    optimizer.step(closure)
    with torch.no_grad():
        for each in parameters:
            noise = torch.randn(each.shape, generator=generator(7), device="cpu").double()
            each += 1e-4 * noise
    landscape = of(network, samples, "cross-entropy")
    gradient, H = dense(landscape, nn.functional.cross_entropy)
    unit = -gradient / gradient.norm()
    expected = float(unit @ H @ unit)
    rise = first_rise(along(landscape, unit), 1.0, eps=EPS)
    assert rise.sharpness == pytest.approx(expected, rel=0.02)
    assert rise.sharpness <= float(torch.linalg.eigvalsh(H)[-1]) * 1.02


def test_curvature_along_random_directions_is_that_of_dense_derivatives():
    network, samples = network_and_samples()
    landscape = of(network, samples, "cross-entropy")
    gradient, H = dense(landscape, nn.functional.cross_entropy)
    here = landscape.measure([landscape.centre]).losses[0]
    for unit in random_units(3, gradient, generator=generator(2)):
        found = curvature_along(along(landscape, unit), here, 1e-3)
        assert float(found.slopes.mean()) == pytest.approx(float(gradient @ unit), abs=1e-6)
        assert float(found.curvatures.mean()) == pytest.approx(float(unit @ H @ unit), abs=1e-5)


def test_what_samples_add_to_a_curvature_is_that_of_dense_derivatives():
    network, samples = network_and_samples()
    landscape = of(network, samples, "cross-entropy")
    (unit,) = random_units(1, landscape.centre, generator=generator(2))
    found = landscape.curvatures(unit)
    for number in range(3):
        some = Samples(samples.inputs[number : number + 1], samples.labels[number : number + 1])
        _, H = dense(of(network, some, "cross-entropy"), nn.functional.cross_entropy)
        assert float(found[number]) == pytest.approx(float(unit @ H @ unit), abs=1e-12)


def test_the_stated_error_is_the_spread_over_samples():
    # curvatures and slopes that differ from sample to sample, 200 sets of 100 samples
    source = generator(3)
    values, errors, distances, distance_errors = [], [], [], []
    for _ in range(200):
        noise = torch.rand(2, 100, generator=source, device="cpu", dtype=torch.float64)
        slopes, curvatures = 0.5 + noise[0], 1 + 4 * noise[1] ** 2

        def losses(t, slopes=slopes, curvatures=curvatures):
            return 3 - slopes * t + curvatures * t**2 / 2

        rise = first_rise(losses, 0.3, eps=EPS)
        values.append(rise.sharpness)
        errors.append(rise.stderr)
        distances.append(rise.distance)
        distance_errors.append(rise.distance_stderr)
    # the spread of 200 has an error of 5 %
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.15)
    assert np.mean(distance_errors) == pytest.approx(np.std(distances), rel=0.15)


def overflowing(t):
    """cosh(3 (t - 1)), infinite where that is too large."""
    return math.cosh(3 * (t - 1)) if t < 200 else math.inf


@pytest.mark.parametrize("start", [1e-3, 1.0, 1e3])
def test_what_is_not_quadratic_is_bracketed(start):
    # both are where they began at t = 2; the first one overflows
    for shape in (overflowing, lambda t: math.log1p((t - 1) ** 2)):

        def losses(t, shape=shape):
            return torch.full((2,), shape(t), device="cpu", dtype=torch.float64)

        rise = first_rise(losses, start, eps=EPS)
        # where passes run out, the rest of the bracket is in the error
        assert abs(rise.distance - 2) <= max(0.02, 2 * rise.distance_stderr)
        assert rise.distance_stderr < 0.4
        assert rise.passes <= 12


def test_without_a_rise_or_a_fall_there_is_no_number():
    def constant(shape):
        return lambda t: torch.full((2,), shape(t), device="cpu", dtype=torch.float64)

    falls = first_rise(constant(lambda t: math.exp(-t)), 1.0, eps=EPS)
    assert math.isnan(falls.sharpness) and "has not risen" in falls.problem
    rises = first_rise(constant(lambda t: t + t**2), 1.0, eps=EPS)
    assert math.isnan(rises.sharpness) and "rises at once" in rises.problem
    # of a descent that single precision would round away there is no number either
    flat = first_rise(constant(lambda t: 1 - 1e-9 * t + 1e-9 * t**2), 1.0, eps=2.0**-23)
    assert math.isnan(flat.sharpness) and "rounding" in flat.problem


class Counting(nn.Module):
    """A network that counts its passes."""

    passes = 0

    def __init__(self, inputs, outputs):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 6), nn.ReLU())
        self.last = nn.Linear(6, outputs)

    def forward(self, inputs):
        # what finds out shapes and whether the network is one passes a few samples
        if len(inputs) == SMALL["samples"]:
            Counting.passes += 1
        return self.last(self.layers(inputs))


@pytest.mark.parametrize("direction", ["gradient", "update", "random"])
def test_a_state_takes_at_most_twelve_forward_passes(direction):
    def network(shape, outputs):
        return Counting(math.prod(shape), outputs)

    Counting.passes = 0
    result = penchant.measure(
        "critical-sharpness",
        **{**SMALL, "architecture": network, "random_directions": 0},
        exact_limit=0,
        along=direction,
        eval_steps=[1, 3, 6],
        dtype="float64",
    )
    passes = result.tables["forward-passes"].values
    assert len(passes) == 3 and passes.max() <= 12
    assert Counting.passes == passes.sum()


def test_one_update_is_measured_where_it_began():
    # full-batch gradient descent without momentum: the update is the gradient's, and as long
    arguments = {
        **SMALL,
        "training": {
            "steps": 3,
            "learning_rate": 0.05,
            "batch": 0,
            "momentum": 0.0,
            "schedule": "constant",
        },
        "samples": None,
        "dtype": "float64",
    }
    update = penchant.measure("critical-sharpness", **arguments, along="update", eval_steps=[3])
    gradient = penchant.measure("critical-sharpness", **arguments, eval_steps=[2])
    assert update.tables["critical-sharpness"].axes["step"] == (2,)
    first = update.quantities["critical-sharpness"]
    assert first.value == pytest.approx(gradient.quantities["critical-sharpness"].value, rel=1e-3)
    # lengths of the update: the critical rate in units of the rate
    rate = gradient.quantities["critical-rate"].value
    assert update.quantities["critical-update"].value == pytest.approx(rate / 0.05, rel=1e-3)
    assert update.quantities["stability-limit"].value == pytest.approx(2 / 0.05)


def test_one_state_has_no_update():
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    with pytest.raises(penchant.Error, match="needs two states of a training, found 1"):
        penchant.measure(
            "critical-sharpness",
            architecture=network,
            dataset="digits:per_class=6",
            samples=None,
            along="update",
        )


def test_the_largest_eigenvalue_is_that_of_the_dense_hessian():
    network, samples = network_and_samples()
    landscape = of(network, samples, "cross-entropy")
    _, H = dense(landscape, nn.functional.cross_entropy)
    result = penchant.measure(
        "critical-sharpness",
        architecture=network,
        dataset=((samples.inputs, samples.labels), (samples.inputs, samples.labels)),
        samples=None,
        random_directions=0,
        dtype="float64",
    )
    largest = float(torch.linalg.eigvalsh(H)[-1])
    assert result.quantities["sharpness"].value == pytest.approx(largest, rel=1e-4)


@pytest.mark.parametrize("probe", ["critical-sharpness", "loss-plane"])
def test_fewer_samples_than_usual_are_all_measured(probe):
    few = {"grid_points": 5, "plane_points": 0} if probe == "loss-plane" else {}
    given = {**SMALL, **few, "training": {"steps": 1}}
    del given["samples"]
    result = penchant.measure(probe, **given)
    # six images of each digit
    assert result.quantities["loss"].count == 60
    with pytest.raises(penchant.Error, match="samples must be at most 60, found 500"):
        penchant.measure(probe, **given, samples=500)


def test_as_many_samples_as_usual_are_the_first_in_order():
    samples = Samples(torch.arange(600.0)[:, None], torch.zeros(600, dtype=torch.long))
    assert first_samples(samples, None, usual=500).inputs[:, 0].tolist() == list(range(500))
    assert len(first_samples(samples, None).labels) == 600
    assert len(first_samples(samples, 600, usual=500).labels) == 600
