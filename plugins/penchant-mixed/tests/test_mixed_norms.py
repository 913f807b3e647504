"""The mixed derivative through normalisation and attention, against double backward."""

import importlib

import penchant_testing as testing
import pytest
import torch

KINDS = ("layer_norm", "group_norm", "batch_norm")
CPU = {"device": "cpu", "dtype": torch.float64}


@pytest.fixture(autouse=True)
def _networks(request, monkeypatch):
    monkeypatch.syspath_prepend(str(request.path.parent))


def dense_gram(kind):
    """M^T M (16, 16) at zero, one entry of the parameter gradient after another."""
    make = getattr(importlib.import_module("mixed_test_networks"), kind)
    network = make().double().eval()
    x = torch.zeros(1, 1, 4, 4, **CPU).requires_grad_()
    # Twice the same image: torch's batch norm is wrong for a single one (see `safety`).
    output = network(x.expand(2, -1, -1, -1)).mean()
    gradients = torch.autograd.grad(output, list(network.parameters()), create_graph=True)
    rows = []
    for entry in torch.cat([gradient.flatten() for gradient in gradients]):
        if entry.requires_grad:
            (row,) = torch.autograd.grad(entry, x, retain_graph=True, allow_unused=True)
            if row is not None:
                rows.append(row.flatten())
    matrix = torch.stack(rows)
    return matrix.T @ matrix


@pytest.mark.parametrize("kind", KINDS)
def test_the_second_moment_is_that_of_double_backward(kind):
    options = {"point": "zero"}
    call = {"networks": 2}
    arguments = {"shape": (1, 4, 4), "outputs": 1, "dtype": "float64", "call": call}
    architecture = {"name": "import", "factory": f"mixed_test_networks:{kind}"}
    exact = testing.check_estimator(
        "mixed-derivative", architecture=architecture, options=options, **arguments
    )
    expected = dense_gram(kind)
    scale = float(expected.norm())
    assert float((exact.matrix - expected).norm()) < 1e-9 * scale

    near = testing.check_estimator(
        "mixed-derivative",
        architecture=architecture,
        options={**options, "method": "finite-difference", "step": 1e-4},
        **arguments,
    )
    assert float((near.matrix - expected).norm()) < 1e-4 * scale

    pairs = testing.check_estimator(
        "mixed-derivative",
        architecture=architecture,
        options={**options, "leading": 2, "tolerance": 1e-9},
        **arguments,
    )
    values = torch.linalg.eigvalsh(expected).flip(0)[:2]
    torch.testing.assert_close(pairs.eigenvalues, values, rtol=1e-7, atol=0)
