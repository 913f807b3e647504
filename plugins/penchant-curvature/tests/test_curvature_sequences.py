"""Curvatures of losses over positions of sequences, and of GPT-2's Conv1D."""

import math

import penchant
import pytest
import torch
from penchant_curvature.declarations import Cfac, EmpiricalFisher, GaussNewton, Kfac
from penchant_curvature.estimators import cfac, empirical_fisher, ggn, kfac
from penchant_curvature.shared.linear_layers import Layer, coverage
from penchant_numerics.curvature import gauss_newton
from penchant_numerics.layers import linear_layers
from torch import nn
from torch.nn import functional

IGNORED = -100


class Conv1D(nn.Module):
    """As in transformers: weights are (inputs, outputs)."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs) / 4)

    def forward(self, x):
        return x @ self.weight + self.bias


class Tokens(nn.Module):
    def __init__(self, classes=4, width=3, mixing=True):
        super().__init__()
        self.embed = nn.Embedding(classes, width)
        self.inner = Conv1D(width, width + 2)
        self.head = nn.Linear(width + 2, classes)
        self.mixing = mixing

    def forward(self, tokens):
        seen = self.embed(tokens)
        if self.mixing:
            seen = seen.cumsum(1)
        return self.head(torch.tanh(self.inner(seen)))


class Scope:
    """What estimators ask of a context."""

    training = None

    def __init__(self):
        self.conventions = {}

    def generator(self, *keys):
        return torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(linear_layers, "_TRANSPOSED", {(Conv1D.__module__, "Conv1D")})


def build(samples=5, positions=3, mixing=True, classes=4):
    torch.manual_seed(0)
    network = Tokens(classes, mixing=mixing).double().eval()
    tokens = torch.randint(0, classes, (samples, positions))
    labels = torch.randint(0, classes, (samples, positions))
    labels[0, 1:] = IGNORED
    return network, (tokens, labels)


def exact(network, data, layer):
    names = [f"{layer}.weight", f"{layer}.bias"]
    return gauss_newton.GaussNewton(network, data, parameters=names).dense()


def away(found, expected):
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("layer", ["inner", "head", "embed"])
def test_gauss_newton_of_a_layer_is_that_of_the_operator(layer):
    network, data = build()
    scope = Scope()
    found = ggn.estimate(GaussNewton(), scope, network, data)[layer].dense()
    names = [name for name, _ in network.named_parameters() if name.startswith(layer)]
    expected = gauss_newton.GaussNewton(network, data, parameters=names).dense()
    assert away(found, expected) < 1e-12
    assert scope.conventions["curvature: columns"] == "all 12 positions x classes of a sequence"
    assert "positions whose label is not -100" in scope.conventions["curvature: reduction"]


def test_kfac_is_the_product_of_its_moments():
    network, (tokens, labels) = build(mixing=False)
    operators = kfac.estimate(Kfac(uncovered="accept"), Scope(), network, (tokens, labels))
    assert list(operators) == ["inner", "head"]

    # positions do not mix: errors at the head are those of its own position
    features = torch.tanh(network.inner(network.embed(tokens))).flatten(0, 1).detach()
    ones = torch.ones_like(features[:, :1])
    h = torch.cat([features, ones], dim=1)
    H = h.T @ h / len(h)
    p = network(tokens).softmax(-1).detach()[labels != IGNORED]
    Delta = (torch.diag_embed(p) - p[:, :, None] * p[:, None]).mean(0)
    layer = Layer("head", 4, 6, bias=True)
    matrices = layer.matrices(torch.eye(24, dtype=torch.float64))
    expected = layer.rows(Delta @ matrices @ H)
    assert away(operators["head"].dense(), expected) < 1e-12


def test_kfac_is_exact_for_one_position():
    network, (tokens, labels) = build(samples=1, positions=1, mixing=False)
    labels.fill_(2)
    operators = kfac.estimate(Kfac(uncovered="accept"), Scope(), network, (tokens, labels))
    for name in ("inner", "head"):
        assert away(operators[name].dense(), exact(network, (tokens, labels), name)) < 1e-12


def test_sampled_labels_make_factors_of_many_classes():
    network, data = build(samples=40, positions=4, classes=300)
    scope = Scope()
    found = kfac.estimate(Kfac(uncovered="accept"), scope, network, data)["inner"]
    assert scope.conventions["curvature: columns"].startswith("16 draws of the labels of each")
    trace = gauss_newton.GaussNewton(network, data, parameters=["inner.*"])
    # the factored trace is not exact; that of the columns is, on average
    columns = ggn.estimate(GaussNewton(), Scope(), network, data)["inner"]
    expected = float(trace.dense().trace())
    assert math.isclose(columns.exact_trace(), expected, rel_tol=0.15)
    assert 0.5 < found.exact_trace() / expected < 2


def test_the_empirical_fisher_is_that_of_gradients_of_sequences():
    network, (tokens, labels) = build()
    options = EmpiricalFisher()
    found = empirical_fisher.estimate(options, Scope(), network, (tokens, labels))["inner"].dense()
    parameters = [network.inner.weight, network.inner.bias]
    rows = []
    for x, y in zip(tokens, labels, strict=True):
        loss = functional.cross_entropy(network(x[None])[0], y, reduction="sum")
        gradient = torch.autograd.grad(loss, parameters)
        rows.append(torch.cat([each.flatten() for each in gradient]))
    g = torch.stack(rows)
    assert away(found, g.T @ g / int((labels != IGNORED).sum())) < 1e-12


def test_cfac_refuses_sequences():
    network, data = build()
    with pytest.raises(penchant.Error, match="one class per sample, found sequences"):
        cfac.estimate(Cfac(uncovered="accept"), Scope(), network, data)


def test_a_transposed_layer_is_covered_and_its_rows_are_the_networks():
    network, (tokens, _) = build()
    found = coverage(network, tokens)
    assert list(found.layers) == ["inner", "head"]
    assert found.report() == "embed (Embedding: 12 parameters)"
    layer = Layer("inner", 5, 4, bias=True, transposed=True)
    flat = torch.cat([network.inner.weight.flatten(), network.inner.bias])[None].detach()
    matrix = layer.matrices(flat)[0]
    assert torch.equal(matrix[:, :3], network.inner.weight.T)
    assert torch.equal(layer.rows(matrix[None]), flat)
