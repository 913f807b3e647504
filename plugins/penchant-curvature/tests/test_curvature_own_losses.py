"""Curvatures of a loss of one's own beside dense autodiff, and beside the built-in loss."""

import math
import sys
import types

import penchant
import pytest
import torch
from penchant_curvature.declarations import Cfac, EmpiricalFisher, GaussNewton, Kfac
from penchant_curvature.estimators import cfac, empirical_fisher, ggn, kfac
from penchant_numerics import Refusal
from torch import nn
from torch.func import functional_call, hessian, jacrev
from torch.nn import functional


def cosh_loss(outputs, labels):
    """Convex, and not the squared error: log cosh of the distance; `one_hot` looks at labels."""
    away = outputs - functional.one_hot(labels, outputs.shape[1]).to(outputs.dtype)
    return away.cosh().log().sum(1) + 0.1 * away.sum(1).square()


def wavy_loss(outputs, labels):
    return outputs.sin().sum(1)


def same_loss(outputs, labels):
    return functional.cross_entropy(outputs, labels, reduction="none")


OWN, WAVY = "own_losses:cosh_loss", "own_losses:wavy_loss"


@pytest.fixture(autouse=True)
def module_of_hers(monkeypatch):
    module = types.ModuleType("own_losses")
    module.cosh_loss, module.wavy_loss = cosh_loss, wavy_loss
    module.same_loss = same_loss
    monkeypatch.setitem(sys.modules, "own_losses", module)


class Scope:
    """What estimators ask of a context."""

    def __init__(self, loss):
        self.conventions = {}
        self.training = type("Training", (), {"loss": loss})


def build():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double().eval()
    return network, (torch.randn(7, 4, dtype=torch.float64), torch.arange(7) % 3)


def dense(network, data, layer):
    """Moments of one layer: mean of J^T H J, and the product of means of its factors."""
    inputs, labels = data
    names = [f"{layer}.weight", f"{layer}.bias"]
    values = {name: network.get_parameter(name).detach() for name in names}
    exact, errors, seen = 0, 0, 0
    for x, y in zip(inputs, labels, strict=True):
        H = hessian(lambda f, y=y: cosh_loss(f[None], y[None])[0])(network(x[None])[0].detach())
        J = jacrev(lambda v, x=x: functional_call(network, v, (x[None],))[0])(values)
        rows = torch.cat([J[name].flatten(1) for name in names], 1)
        exact = exact + rows.T @ H @ rows / len(inputs)
        # the bias's derivatives are the errors of the layer's outputs
        errors = errors + J[names[1]].T @ H @ J[names[1]] / len(inputs)
        h = x if layer == "0" else network[:2](x[None])[0].detach()
        h = torch.cat([h, torch.ones(1, dtype=h.dtype)])
        seen = seen + torch.outer(h, h) / len(inputs)
    # as matrices (outputs, inputs with a one), weights first and then the bias
    outputs, width = errors.shape[0], seen.shape[0]
    kron = torch.kron(errors, seen)
    order = torch.arange(outputs * width).reshape(outputs, width)
    order = torch.cat([order[:, :-1].flatten(), order[:, -1]])
    return exact, kron[order][:, order]


def away(found, expected):
    return float((found - expected).detach().norm() / expected.detach().norm())


@pytest.mark.parametrize("layer", ["0", "2"])
@pytest.mark.filterwarnings("ignore:Hessians of the loss")
def test_gauss_newton_and_kfac_are_those_of_dense_autodiff(layer):
    network, data = build()
    exact, factored = dense(network, data, layer)
    scope = Scope(OWN)
    assert away(ggn.estimate(GaussNewton(), scope, network, data)[layer].dense(), exact) < 1e-12
    assert away(kfac.estimate(Kfac(), scope, network, data)[layer].dense(), factored) < 1e-12
    assert scope.conventions["curvature: loss"] == f"the user's own, {OWN}"


@pytest.mark.parametrize(
    ("estimator", "options"), [(ggn, GaussNewton()), (kfac, Kfac()), (cfac, Cfac())]
)
def test_the_built_in_loss_written_by_oneself_has_its_curvature(estimator, options):
    network, data = build()
    built_in = estimator.estimate(options, Scope("cross-entropy"), network, data)
    own = estimator.estimate(options, Scope("own_losses:same_loss"), network, data)
    for layer in ("0", "2"):
        assert away(own[layer].dense(), built_in[layer].dense()) < 1e-12


@pytest.mark.filterwarnings("ignore:Hessians of the loss")
def test_proxies_of_an_own_loss_are_compared():
    network, data = build()
    result = penchant.measure(
        "curvature-proxies",
        architecture=network,
        dataset=(data, data),
        dtype="float64",
        executor="serial",
        training={"steps": 0, "loss": OWN},
        estimators={"curvature": ["ggn", "kfac"]},
    )
    exact, factored = dense(network, data, "2")
    expected = away(factored, exact)
    found = result.quantities["last-error-kfac"].value
    assert math.isclose(found, expected, rel_tol=1e-9)
    assert 1 < result.quantities["effective-samples"].value <= 7


def test_what_has_no_gauss_newton_matrix_is_refused_with_what_takes_it():
    network, data = build()
    with pytest.raises(Refusal, match=r"not convex in the outputs.*hessian-spectrum"):
        ggn.estimate(GaussNewton(), Scope(WAVY), network, data)
    with pytest.raises(penchant.Error, match=r"empirical Fisher needs cross-entropy.*ggn, kfac"):
        empirical_fisher.estimate(EmpiricalFisher(), Scope(OWN), network, data)
    tokens = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(penchant.Error, match="of sequences need cross-entropy or squared-error"):
        ggn.estimate(GaussNewton(), Scope(OWN), nn.Embedding(3, 3).double(), (tokens, tokens))
