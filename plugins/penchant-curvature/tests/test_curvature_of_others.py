"""An estimator of somebody else's takes part in full: it knows the role's contract, not this plugin."""

import math

import numpy as np
import penchant_testing as testing
import pytest
import torch
from penchant_curvature.curvature_proxies.layer_comparison import chosen_samples
from penchant_curvature.curvature_proxies.probe import run
from penchant_curvature.shared.layer_operators import column_operators
from penchant_curvature.shared.linear_layers import coverage
from penchant_numerics.curvature import GaussNewton
from penchant_numerics.linear_algebra import Eigenpairs, Operator
from penchant_numerics.roles import LayerCurvature
from torch import nn


class Diagonal(Operator):
    """diag(d): everything that the contract asks for, written from the contract."""

    by_class = True

    def __init__(self, diagonal):
        super().__init__(len(diagonal), device=diagonal.device, dtype=diagonal.dtype)
        self.diagonal = diagonal

    def _rows(self, rows):
        return rows * self.diagonal

    def exact_trace(self):
        return float(self.diagonal.sum())

    @property
    def squared_norm(self):
        return float(self.diagonal.square().sum())

    def inner(self, other):
        return float((self.diagonal * other.dense().diagonal()).sum())

    def alignment(self, other):
        return self.inner(other) / math.sqrt(self.squared_norm * other.squared_norm)

    def frobenius_distance(self, other, *, relative=False):
        square = self.squared_norm - 2 * self.inner(other) + other.squared_norm
        return math.sqrt(max(square, 0) / (self.squared_norm if relative else 1))

    def exact_spectrum(self):
        return self.diagonal.sort(descending=True).values

    def eigenpairs(self, count, *, generator=None):
        top = self.diagonal.topk(min(count, self.size))
        vectors = torch.eye(self.size, device=self.device, dtype=self.dtype)[:, top.indices]
        zeros = torch.zeros(len(top.values), dtype=torch.float64)
        return Eigenpairs(top.values.double(), vectors, zeros, zeros == 0, 0)


class Products(Operator):
    """The same operator, which knows products only."""

    def __init__(self, diagonal):
        super().__init__(len(diagonal), device=diagonal.device, dtype=diagonal.dtype)
        self.diagonal = diagonal

    def _rows(self, rows):
        return rows * self.diagonal


def diagonals(network, data):
    """The diagonal of Gauss-Newton by layer; the labels are used, so that permuted ones show."""
    found = {}
    for name in ("1", "3"):
        exact = GaussNewton(network, (data[0], None), parameters=name)
        found[name] = exact.dense().diagonal().clone() * (1 + 0.1 * float(data[1][0]))
    return found


class Theirs:
    """What a context hands out for somebody's estimator: called as the role says."""

    def __init__(self, kind):
        self.kind = kind
        self.name = self.label = kind.__name__.lower()
        self.options = None

    def __call__(self, network, data):
        return {name: self.kind(values) for name, values in diagonals(network, data).items()}


def measured(kind):
    """The probe with Gauss-Newton and one estimator that this plugin has never heard of."""
    context = testing.context(
        "curvature-proxies",
        dtype="float64",
        estimators={"curvature": ["ggn", "kfac"]},
        per_class=3,
        permutations=1,
        grid_points=32,
        lanczos_steps=20,
        training={"steps": 0},
    )
    ggn, _ = context.estimators("curvature")
    # shards have narrower contexts of their own
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(context), "estimators", lambda self, role: (ggn, Theirs(kind)))
        return run(context.options, context), context


@pytest.fixture(scope="module")
def full():
    """Of an operator that knows everything."""
    return measured(Diagonal)


def test_an_operator_of_anybodys_is_a_layer_curvature():
    assert isinstance(Diagonal(torch.ones(3)), LayerCurvature)
    assert not isinstance(Products(torch.ones(3)), LayerCurvature)


def test_an_estimator_of_anybodys_takes_part_in_full(full):
    result, context = full
    network = context.network()
    data = chosen_samples(context)
    for number, (name, values) in enumerate(diagonals(network, data).items()):
        exact = GaussNewton(network, (data.inputs, None), parameters=name).dense()
        error = float((exact - values.diag()).norm() / exact.norm())
        assert result.arrays["layer-error-diagonal"][number] == pytest.approx(error, rel=1e-9)
        overlap = exact.norm() * values.norm()
        alignment = float((exact.diagonal() * values).sum() / overlap)
        assert result.arrays["layer-alignment-diagonal"][number] == pytest.approx(alignment)
        trace = result.arrays["layer-trace-diagonal"][number]
        assert trace == pytest.approx(float(values.sum()), rel=1e-9)
        top = result.arrays["leading-diagonal"][number]
        np.testing.assert_allclose(top, values.sort(descending=True).values[: len(top)])
    assert context.conventions["spectra of diagonal"] == "exact"
    assert result.arrays["layer-error-diagonal-null"].shape == (2,)
    assert result.quantities["last-error-diagonal"].null is not None


def test_an_operator_that_knows_products_only_has_the_same_numbers(full):
    whole, _ = full
    few, context = measured(Products)
    for name in ("error", "alignment", "overlap", "gap", "outliers"):
        found, expected = (
            few.arrays[f"layer-{name}-products"],
            whole.arrays[f"layer-{name}-diagonal"],
        )
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=name)
    assert "layer-error-products-null" not in few.arrays, "it does not say that it uses classes"
    assert context.conventions["spectra of products"].startswith("Lanczos")


def test_inner_products_with_a_large_operator_need_its_products_only():
    """Beyond what fits as a matrix, too: sum_j v_j^T B v_j over the columns of V."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(45, 46), nn.Tanh(), nn.Linear(46, 3)).double().eval()
        inputs = torch.randn(4, 45, dtype=torch.float64)
    covered = coverage(network, inputs)
    exact = column_operators(
        network, (inputs, None), covered, columns="gauss-newton", loss="cross-entropy"
    )["0"]
    theirs = Products(torch.linspace(0, 1, exact.size, dtype=torch.float64))
    assert exact.size > 2048
    expected = float((exact.dense().diagonal() * theirs.diagonal).sum())
    assert exact.inner(theirs) == pytest.approx(expected, rel=1e-9)
