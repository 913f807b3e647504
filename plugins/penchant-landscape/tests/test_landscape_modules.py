"""The landscape by module: deep linear networks whose blocks are known, and dense derivatives."""

import math

import numpy as np
import penchant
import pytest
import torch
from penchant_landscape.learning_coefficient.probe import ModuleEnergy
from penchant_landscape.shared.network_energy import NetworkEnergy
from penchant_numerics.data import Samples
from penchant_numerics.jacobians import Modules
from torch import nn

LAYERS = ["0", "1", "2"]
WIDTHS = (4, 3, 3, 4)
RANK = 2
SAMPLES = 200
LOCALISATION = 1.0


class DeepLinear(nn.Sequential):
    """Balanced factors of a projection of rank 2, without biases."""

    def __init__(self):
        layers = []
        for before, after in zip(WIDTHS, WIDTHS[1:]):
            layer = nn.Linear(before, after, bias=False, dtype=torch.float64)
            weight = torch.zeros(after, before, device="cpu", dtype=torch.float64)
            weight[range(RANK), range(RANK)] = 1.0
            layer.weight = nn.Parameter(weight)
            layers.append(layer)
        super().__init__(*layers)


def deep_linear():
    """A network at the minimum of its loss, and samples."""
    generator = torch.Generator("cpu").manual_seed(1)
    inputs = torch.randn(SAMPLES, 4, generator=generator, device="cpu", dtype=torch.float64)
    network = DeepLinear()
    return network, Samples(inputs, network(inputs).detach())


def curvatures(inputs):
    """Non-zero curvatures of each layer, by what is in front of it and behind it.

    |A W B x|^2 / 2 is quadratic in W with eigenvalues s_i(A)^2 c_j, c those of the second moment of
    B x. Here A and B are projections of rank 2, or the identity.
    """
    moment = inputs.T @ inputs / len(inputs)
    whole = torch.linalg.eigvalsh(moment)
    inner = torch.linalg.eigvalsh(moment[:RANK, :RANK])
    return {"0": whole.repeat(RANK), "1": inner.repeat(RANK), "2": inner.repeat(WIDTHS[-1])}


def test_layers_of_a_deep_linear_network_have_the_curvatures_in_closed_form():
    network, samples = deep_linear()
    energy = NetworkEnergy(network, samples, loss="squared-error")
    expected = curvatures(samples.inputs)
    for name, coordinates in Modules.of(network, LAYERS).coordinates(network).items():
        own = ModuleEnergy(energy, coordinates)
        # the gradient of a quadratic form is linear: unit vectors give its matrix
        units = torch.eye(len(coordinates), device="cpu", dtype=torch.float64)
        excess, gradient = own(own.centre + units)
        values = torch.linalg.eigvalsh(gradient).flip(0)
        some = expected[name].sort(descending=True).values
        np.testing.assert_allclose(values[: len(some)], some, rtol=1e-10)
        np.testing.assert_allclose(values[len(some) :], 0, atol=1e-12)
        np.testing.assert_allclose(excess[0], gradient.diagonal() / 2, rtol=1e-10, atol=1e-14)


def test_a_module_moves_its_own_parameters_and_no_others():
    network, samples = deep_linear()
    energy = NetworkEnergy(network, samples, loss="squared-error")
    for name, coordinates in Modules.of(network, LAYERS).coordinates(network).items():
        own = ModuleEnergy(energy, coordinates)
        move = torch.randn(
            len(coordinates), generator=torch.Generator("cpu").manual_seed(2), device="cpu"
        ).double()
        moved = DeepLinear()
        with torch.no_grad():
            weight = moved.get_parameter(f"{name}.weight")
            weight.add_(move.view_as(weight))
            expected = (moved(samples.inputs) - samples.labels).square().sum(1).mean() / 2
        excess, _ = own((own.centre + move)[None])
        assert float(excess) == pytest.approx(float(expected), rel=1e-12)


def measured(parameters=LAYERS, **options):
    network, samples = deep_linear()
    pair = (samples.inputs, samples.labels)
    return penchant.measure(
        "learning-coefficient",
        architecture=network,
        dataset=(pair, pair),
        localisation=LOCALISATION,
        parameters=parameters,
        dtype="float64",
        executor="serial",
        **options,
    )


def test_the_coefficient_by_module_is_half_the_rank_of_its_curvature():
    result = measured(chains=8, chain_steps=1000, warmup=300)
    scale = SAMPLES / math.log(SAMPLES)
    _, samples = deep_linear()
    local = result.tables["localised-coefficient-by-module"]
    limit = result.tables["learning-coefficient-by-module"]
    for name, values in curvatures(samples.inputs).items():
        curved = scale * values
        exact = float((curved / (curved + LOCALISATION)).sum()) / 2
        own = local.at(module=name)
        assert abs(float(own.values) - exact) < 4 * float(own.stderr)
        # half the number of curvatures that are not zero; a regular model has half the parameters
        far = limit.at(module=name)
        assert abs(float(far.values) - len(values) / 2) < 3 * float(far.stderr)
        size = DeepLinear().get_parameter(f"{name}.weight").numel()
        assert float(far.null) == size / 2


def plane(**options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        network = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    generator = torch.Generator("cpu").manual_seed(4)
    inputs = torch.randn(30, 4, generator=generator, device="cpu", dtype=torch.float64)
    labels = torch.arange(30, device="cpu") % 3
    result = penchant.measure(
        "loss-plane",
        architecture=network,
        dataset=((inputs, labels), (inputs, labels)),
        samples=None,
        grid_points=5,
        plane_points=0,
        random_directions=6,
        dtype="float64",
        executor="serial",
        **options,
    )
    return network, inputs, labels, result


def test_sharpness_by_module_is_that_of_dense_diagonal_blocks():
    network, inputs, labels, result = plane(parameters=["0", "2.weight"])
    named = dict(network.named_parameters())
    flat = torch.cat([value.detach().flatten() for value in named.values()])
    sizes = [value.numel() for value in named.values()]

    def loss(row):
        pairs = zip(named.items(), row.split(sizes))
        moved = {name: own.view_as(value) for (name, value), own in pairs}
        return nn.functional.cross_entropy(
            torch.func.functional_call(network, moved, (inputs,)), labels
        )

    H = torch.func.hessian(loss)(flat).detach()
    found = result.tables["sharpness-by-module"]
    for module, own in {"0": slice(0, 25), "2.weight": slice(25, 40)}.items():
        largest = float(torch.linalg.eigvalsh(H[own, own])[-1])
        assert float(found.at(module=module).values) == pytest.approx(largest, rel=1e-9)
    # a module that is moved by hand has the loss of its line
    lines = result.tables["random-loss-by-module"]
    assert lines.values[:, 2] == pytest.approx(float(loss(flat)), rel=1e-12)


def test_the_whole_network_as_a_module_is_the_whole():
    *_, result = plane(parameters=["*"])
    whole = result.quantities
    tables = result.tables
    rise = float(tables["random-rise-by-module"].values[0])
    assert rise == pytest.approx(whole["random-rise"].value, rel=1e-12)
    assert float(tables["random-rise-by-module"].stderr[0]) == pytest.approx(
        whole["random-rise"].stderr, rel=1e-12
    )
    sharpness = tables["sharpness-by-module"].at(module="*")
    assert float(sharpness.values) == pytest.approx(whole["sharpness"].value, rel=1e-9)
    assert float(sharpness.stderr) == pytest.approx(whole["sharpness"].stderr, rel=1e-6)
    assert float(sharpness.null) == pytest.approx(whole["sharpness"].null, rel=1e-9)


def test_a_module_without_filters_has_no_random_directions():
    *_, result = plane(parameters=["0.bias", "2"])
    rise = result.tables["random-rise-by-module"]
    assert math.isnan(float(rise.at(module="0.bias").values))
    assert float(rise.at(module="2").values) > 0
    assert any("no random directions of module '0.bias'" in each for each in result.warnings)


def test_a_path_of_all_parameters_is_the_path():
    result = penchant.measure(
        "loss-plane",
        architecture="mlp:widths=[6]",
        dataset="digits:per_class=4",
        samples=40,
        grid_points=5,
        plane_points=0,
        random_directions=2,
        parameters=["*", "1"],
        training={"steps": 5, "learning_rate": 0.2},
        executor="serial",
    )
    path = result.tables["path-loss-by-module"]
    np.testing.assert_allclose(path.at(module="*").values, result.arrays["path-loss"][0], rtol=1e-5)
    # at the last network all modules are where they are
    assert path.values[:, -1] == pytest.approx(result.quantities["loss"].value, rel=1e-6)


def test_without_modules_nothing_changes():
    options = {"chains": 4, "chain_steps": 60, "warmup": 40}
    plain = measured(**options)
    without = measured(**options, parameters=[])
    assert set(without.tables) < set(plain.tables)
    assert all(name.endswith("-by-module") for name in set(plain.tables) - set(without.tables))
    for name, array in without.arrays.items():
        assert np.array_equal(array, plain.arrays[name], equal_nan=True), name


def test_what_names_no_parameter_is_refused():
    with pytest.raises(penchant.Error, match="no parameter is named '3'"):
        plane(parameters=["3"])
    with pytest.raises(penchant.Error, match="no parameter is named '9'"):
        measured(chains=2, parameters=["9"])
