"""The probe `parameter-directions` against dense Jacobians and first-order theory."""

import numpy as np
import penchant_testing as testing
import pytest
import torch
from penchant_numerics.jacobians import Outputs
from penchant_numerics.layers import tangent_kernel
from penchant_tangent.parameter_directions.probe import Moved, root_mean, run, singular_directions
from penchant_tangent.shared.supernat import positive_part
from torch import nn


def network_and_inputs():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
        return network, torch.randn(7, 3, dtype=torch.float64)


class Recurrent(nn.Module):
    """An LSTM: its kernels write in place what a tangent needs."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(1, 2, batch_first=True)

    def forward(self, x):
        states, _ = self.cell(x.unsqueeze(-1))
        return states[:, -1]


@pytest.mark.filterwarnings("ignore::penchant_numerics.device.vectorisation.NotVectorisedWarning")
@pytest.mark.parametrize("recurrent", [False, True])
def test_directions_are_the_right_singular_vectors_of_the_dense_jacobian(recurrent):
    network, inputs = network_and_inputs()
    if recurrent:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = Recurrent().double()
    outputs = Outputs(network)
    values, vectors = positive_part(*torch.linalg.eigh(tangent_kernel(network, inputs)))
    rows = torch.stack(list(singular_directions(outputs, inputs, values, vectors)))

    def dense(parameters):
        return torch.func.functional_call(network, parameters, (inputs,))

    jacobians = torch.func.jacrev(dense, chunk_size=1)(dict(network.named_parameters()))
    J = torch.cat([each.reshape(14, -1) for each in jacobians.values()], 1).detach()
    assert torch.allclose(rows @ rows.T, torch.eye(len(rows)).double(), atol=1e-9)
    assert torch.allclose((J @ rows.T).norm(dim=0), values.sqrt(), rtol=1e-9)


def test_the_error_of_first_order_falls_with_the_square_of_the_step():
    network, inputs = network_and_inputs()
    outputs = Outputs(network)
    values, vectors = positive_part(*torch.linalg.eigh(tangent_kernel(network, inputs)))
    (direction, *_) = singular_directions(outputs, inputs, values, vectors)
    moved = Moved(outputs, [inputs])
    before = moved.before[0].clone()
    errors = []
    for epsilon in (0.02, 0.01):
        steps = outputs.layout.split(direction)
        after = outputs([v + epsilon * p for v, p in zip(outputs.values, steps)], inputs)
        first_order = epsilon * values[0].sqrt() * vectors[:, 0].reshape(7, 2)
        errors.append(float((after - before - first_order).norm()))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)


def test_a_root_mean_has_the_error_of_the_delta_method():
    squares = torch.tensor([1.0, 4.0, 9.0, 2.0]).double()
    root, error = root_mean(squares)
    assert root == pytest.approx(2)
    assert error == pytest.approx(float(squares.std()) / 2 / 4)


def test_a_linear_network_changes_as_first_order_says(tmp_path):
    arguments = {"architecture": "logistic", "dtype": "float64", "training": {"steps": 3}}
    options = {"samples": 12, "vectors": 400}
    context = testing.context("parameter-directions", tmp_path, **arguments, **options)
    result = run(context.options, context)
    changes = result.arrays["singular-changes-train"]
    assert np.allclose(changes, result.arrays["expected-changes"], rtol=1e-9)
    squares = result.arrays["random-changes-train"] ** 2
    expected = result.quantities["random-change-expected"].value ** 2
    error = squares.std(ddof=1) / len(squares) ** 0.5
    assert abs(squares.mean() - expected) < 4 * error


def test_random_changes_are_compared_with_first_order_as_roots_of_mean_squares(tmp_path):
    arguments = {"architecture": "logistic", "dtype": "float64", "training": {"steps": 3}}
    context = testing.context(
        "parameter-directions", tmp_path, samples=12, vectors=5000, **arguments
    )
    result = run(context.options, context)
    changes = result.arrays["random-changes-train"]
    found = result.quantities["random-change-train"]
    assert found.value == pytest.approx(np.sqrt(np.mean(changes**2)), rel=1e-12)
    assert found.df == 4999
    assert abs(found.value - found.null) < 3 * found.stderr
    # a mean of roots is below, whatever the number of directions
    assert found.null - changes.mean() > 4 * changes.std() / 5000**0.5


def alike(generator):
    """Samples whose inputs are all the same, so that the Jacobian has the rank of one of them."""
    return torch.ones(40, 4, device="cpu"), torch.arange(40, device="cpu") % 3


@pytest.mark.parametrize("factory", [testing.SAMPLES, alike])
def test_single_precision_gives_the_numbers_of_double_precision(factory, tmp_path):
    arguments = {"dataset": {"name": "import", "factory": factory}, "training": {"steps": 0}}
    found = []
    for dtype in ("float32", "float64"):
        context = testing.context(
            "parameter-directions", tmp_path, dtype=dtype, samples=12, vectors=6, **arguments
        )
        found.append(run(context.options, context).quantities)
    single, double = found
    for name, quantity in double.items():
        assert single[name].value == pytest.approx(quantity.value, rel=1e-3), name


def test_eigenvalues_that_are_rounding_of_single_precision_are_left_out():
    rows = torch.randn(9, 2, generator=torch.Generator("cpu").manual_seed(0), device="cpu")
    pairs = torch.linalg.eigh((rows @ rows.T).double())
    values, vectors = positive_part(*pairs, dtype=torch.float32)
    assert len(values) == 2 and vectors.shape == (9, 2)
