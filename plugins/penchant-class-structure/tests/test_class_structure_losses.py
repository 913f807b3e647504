"""Labels that are numbers, and losses of one's own, in `hessian-spectrum`."""

import math
import sys

import numpy as np
import penchant
import pytest
import torch
from torch import nn
from torch.func import functional_call, hessian, jacrev

G = torch.Generator().manual_seed(0)
INPUTS = torch.randn(24, 3, generator=G)
NUMBERS = torch.randn(24, 2, generator=G)
YES_NO = (NUMBERS > 0).float()


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


LOSSES = """
import torch

def robust(outputs, labels):  # pseudo-Huber: convex
    return ((1 + (outputs - labels).square()).sqrt() - 1).sum(1)

def welsch(outputs, labels):  # bounded: not convex where outputs are far from labels
    return (1 - torch.exp(-(outputs - labels).square())).sum(1)
"""


@pytest.fixture(autouse=True)
def her_losses(tmp_path, monkeypatch):
    (tmp_path / "her_losses.py").write_text(LOSSES)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "her_losses", raising=False)


def robust(outputs, labels):
    return ((1 + (outputs - labels).square()).sqrt() - 1).sum(1)


def measured(labels, loss, **options):
    return penchant.measure(
        "hessian-spectrum",
        architecture=network(),
        dataset=((INPUTS, labels), (INPUTS, labels)),
        split="train",
        loss=loss,
        **options,
    )


def dense(labels, each):
    """Hessian and Gauss-Newton matrix of the mean of a loss, in float64 by automatic derivatives."""
    module = network().double()
    parameters = dict(module.named_parameters())
    flat = torch.cat([value.detach().flatten() for value in parameters.values()])
    sizes = [value.numel() for value in parameters.values()]

    def outputs(vector):
        tensors = [
            each.reshape(value.shape)
            for each, value in zip(vector.split(sizes), parameters.values(), strict=True)
        ]
        return functional_call(module, dict(zip(parameters, tensors, strict=True)), INPUTS.double())

    targets = labels.double()
    H = hessian(lambda vector: each(outputs(vector), targets).mean())(flat)
    J = jacrev(outputs)(flat).detach()
    at = outputs(flat).detach()
    G = torch.zeros_like(H)
    for number in range(len(at)):
        row = targets[number : number + 1]
        curved = hessian(lambda out, row=row: each(out[None], row)[0])(at[number])
        G += J[number].T @ curved @ J[number] / len(at)
    return H.detach(), G


def half_squares(outputs, labels):
    return 0.5 * (outputs - labels).square().sum(1)


def binary(outputs, labels):
    each = nn.functional.binary_cross_entropy_with_logits(outputs, labels, reduction="none")
    return each.sum(1)


@pytest.mark.parametrize(
    ("loss", "labels", "each"),
    [
        ("training", NUMBERS, half_squares),
        ("squared-error", NUMBERS, half_squares),
        ("binary-cross-entropy", YES_NO, binary),
        ("her_losses:robust", NUMBERS, robust),
    ],
)
def test_spectra_are_those_of_dense_derivatives(loss, labels, each):
    H, G = dense(labels, each)
    result = measured(labels, loss, leading=26)
    expected = torch.linalg.eigvalsh(G).flip(0).numpy()
    found = result.arrays["top-eigenvalues-gauss-newton"]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    of_hessian = torch.linalg.eigvalsh(H).flip(0).numpy()
    np.testing.assert_allclose(result.arrays["top-eigenvalues"], of_hessian, atol=1e-9)
    values = result.quantities
    assert values["trace-gauss-newton"].value == pytest.approx(float(G.trace()), rel=1e-5)
    assert values["trace-gauss-newton"].over == "samples" and values["loss"].stderr > 0
    own = each(network()(INPUTS), labels).mean()
    assert values["loss"].value == pytest.approx(float(own.detach()), rel=1e-5)


def test_the_null_of_numbers_is_their_spread():
    value = measured(NUMBERS, "training").quantities["loss"]
    spread = float((NUMBERS - NUMBERS.mean(0)).square().sum(1).mean()) / 2
    assert value.null == pytest.approx(spread, rel=1e-5)
    chances = YES_NO.double().mean(0)
    entropy = float(-(chances * chances.log() + (1 - chances) * (1 - chances).log()).sum())
    null = measured(YES_NO, "binary-cross-entropy").quantities["loss"].null
    assert null == pytest.approx(entropy, rel=1e-6) and null < 2 * math.log(2)
    assert measured(NUMBERS, "her_losses:robust").quantities["loss"].null is None


def test_a_loss_that_is_not_convex_is_refused_with_its_eigenvalue():
    with pytest.raises(penchant.Error, match="not convex in the outputs.*eigenvalue -0.*hessian"):
        measured(3 * NUMBERS, "her_losses:welsch")
    alone = measured(3 * NUMBERS, "her_losses:welsch", matrices=("hessian",))
    assert "trace-hessian" in alone.quantities


def test_cross_entropy_of_numbers_is_refused():
    with pytest.raises(penchant.Error, match="cross-entropy needs labels that are classes"):
        measured(NUMBERS, "cross-entropy")
