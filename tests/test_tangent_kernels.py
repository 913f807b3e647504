"""Tangent kernels by layer structure against dense Jacobians, and the Gauss-Newton spectrum that follows."""
# ruff: noqa: T201 (the numbers are shown with -s)

import pytest
import torch
from penchant_numerics.gauss_newton import GaussNewton
from penchant_numerics.layer_features import TangentFeatures
from penchant_numerics.tangent_kernels import (
    centre,
    cka,
    effective_rank,
    gauss_newton_spectrum,
    layer_kernels,
    sample_traces,
    tangent_kernel,
)
from torch import nn
from torch.func import functional_call, jacrev

SAMPLES = 9


def mlp():
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 4)), (5,)


def convolutions():
    layers = [
        nn.Conv2d(2, 3, 3, stride=2, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(inplace=True),
        nn.Conv2d(3, 8, 2, bias=False),
    ]
    network = nn.Sequential(
        *layers, nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    )
    network[1].running_mean.uniform_(-1, 1)
    network[1].running_var.uniform_(0.5, 2)
    return network, (2, 8, 8)


class Twice(nn.Module):
    """A module used twice in a pass."""

    def __init__(self):
        super().__init__()
        self.first, self.again, self.last = nn.Linear(5, 6), nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        return self.last(torch.tanh(self.again(torch.tanh(self.again(x)))))


class Tied(nn.Module):
    """A weight two modules share, one that is used without its module, and a bare parameter."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third, self.last = (
            nn.Linear(5, 6),
            nn.Linear(6, 6),
            nn.Linear(6, 6),
            nn.Linear(6, 3),
        )
        self.second.weight = self.third.weight
        self.loose, self.scale = nn.Linear(6, 6), nn.Parameter(torch.rand(6) + 0.5)

    def forward(self, x):
        x = torch.tanh(self.third(torch.tanh(self.second(torch.tanh(self.first(x)))))) * self.scale
        return self.last(torch.tanh(self.loose(x) + x @ self.loose.weight))


class Tokens(nn.Module):
    """Linear layers on sequences, layer-norm, a one-dimensional and a grouped convolution."""

    def __init__(self):
        super().__init__()
        self.mix, self.norm, self.groups = (
            nn.Conv1d(4, 6, 3, dilation=2),
            nn.LayerNorm(6),
            nn.Conv1d(6, 6, 1, groups=2),
        )
        self.wide, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        x = self.groups(self.norm(self.mix(x).transpose(1, 2)).transpose(1, 2))
        return self.head(torch.tanh(self.wide(x.transpose(1, 2)))).mean(1)


NETWORKS = {
    "mlp": mlp,
    "convolutions": convolutions,
    "twice": lambda: (Twice(), (5,)),
    "tied": lambda: (Tied(), (5,)),
    "tokens": lambda: (Tokens(), (4, 9)),
}


def build(name):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network, shape = NETWORKS[name]()
        return network.double().eval(), torch.randn(SAMPLES, *shape, dtype=torch.float64)


def jacobian(network, x, names=None):
    """All gradients (n C, parameters), as torch.func gives them."""
    chosen = {
        name: value.detach()
        for name, value in network.named_parameters()
        if names is None or name in names
    }
    columns = jacrev(lambda parameters: functional_call(network, parameters, (x,)))(chosen)
    return torch.cat(
        [each.reshape(*each.shape[:2], -1) for each in columns.values()], dim=2
    ).flatten(0, 1)


def close(found, expected, tolerance=1e-11):
    assert float((found - expected).abs().max()) <= tolerance * max(
        1.0, float(expected.abs().max())
    )


@pytest.mark.parametrize("keep", [2**30, 0])
@pytest.mark.parametrize("name", NETWORKS)
def test_kernel_is_that_of_the_dense_jacobian(name, keep):
    network, x = build(name)
    J = jacobian(network, x)
    close(tangent_kernel(network, x, batch=4, keep=keep), J @ J.T)
    other = x[:5] + 1
    close(
        tangent_kernel(network, x, other=other, batch=4, keep=keep), J @ jacobian(network, other).T
    )


@pytest.mark.parametrize(
    ("name", "factored"),
    [
        ("mlp", {"0", "2"}),
        ("convolutions", {"0", "3", "7"}),
        ("twice", {"first", "again", "last"}),
        ("tied", {"first", "last"}),
        ("tokens", {"mix", "wide", "head"}),
    ],
)
def test_layers_go_by_factors_where_their_gradient_is_that_of_their_factors(name, factored):
    network, x = build(name)
    assert set(TangentFeatures(network, x).layers) == factored


@pytest.mark.parametrize("name", NETWORKS)
def test_layer_kernels_are_those_of_their_parameters_and_add_up(name):
    network, x = build(name)
    parts = layer_kernels(network, x, batch=4)
    close(sum(parts.values()), tangent_kernel(network, x))
    for layer, part in parts.items():
        names = [each for each, _ in network.named_parameters() if each.rpartition(".")[0] == layer]
        J = jacobian(network, x, names)
        close(part, J @ J.T)


def test_parameters_can_be_chosen():
    network, x = build("mlp")
    for patterns, names in (
        ("0", ["0.weight", "0.bias"]),
        ("*.bias", ["0.bias", "2.bias"]),
        ("2.weight", ["2.weight"]),
    ):
        J = jacobian(network, x, names)
        close(tangent_kernel(network, x, parameters=patterns), J @ J.T)


@pytest.mark.parametrize("loss", ["cross-entropy", "squared-error"])
@pytest.mark.parametrize("name", ["mlp", "convolutions", "twice"])
def test_spectrum_is_all_of_gauss_newtons(name, loss):
    network, x = build(name)
    exact = torch.linalg.eigvalsh(GaussNewton(network, (x, None), loss=loss).dense()).flip(0)
    found = gauss_newton_spectrum(network, (x, None), loss=loss, batch=4)
    close(found, exact[: len(found)], 1e-11)
    assert len(found) == len(exact) or float(exact[len(found)].abs()) < 1e-12 * float(exact[0])
    print(f"{name}, {loss}: {len(found)} eigenvalues that are not zero")


@pytest.mark.parametrize("loss", ["cross-entropy", "squared-error"])
@pytest.mark.parametrize("name", NETWORKS)
def test_traces_of_samples_are_those_of_their_own_gauss_newton(name, loss):
    network, x = build(name)
    exact = torch.stack(
        [GaussNewton(network, (each[None], None), loss=loss).dense().trace() for each in x]
    )
    close(sample_traces(network, x, loss=loss, batch=4), exact)


def test_more_rows_than_a_matrix_may_have_are_refused():
    network, x = build("mlp")
    with pytest.raises(ValueError, match="at most 20 samples x outputs, found 36"):
        gauss_newton_spectrum(network, (x, None), largest=20)


@pytest.mark.parametrize("centring", ["outputs", "all", "none"])
def test_centring_is_that_of_features(centring):
    network, x = build("mlp")
    J = jacobian(network, x)
    four = J.reshape(SAMPLES, 4, -1)
    features = {"outputs": (four - four.mean(0)).flatten(0, 1), "all": J - J.mean(0), "none": J}[
        centring
    ]
    K = tangent_kernel(network, x)
    close(centre(K, outputs=4, centring=centring), features @ features.T)
    assert cka(K, K, outputs=4, centring=centring) == pytest.approx(1)
    assert cka(K, 3 * K, outputs=4, centring=centring) == pytest.approx(1)


def test_effective_rank_lies_between_one_and_the_rank():
    network, x = build("mlp")
    values = torch.linalg.eigvalsh(tangent_kernel(network, x))
    assert 1 <= effective_rank(values) <= SAMPLES * 4
    assert effective_rank(torch.ones(7, device="cpu")) == pytest.approx(7)
    with pytest.raises(ValueError, match="found 'rows'"):
        cka(values[:, None] * values, values[:, None] * values, outputs=4, centring="rows")


@pytest.mark.parametrize("name", NETWORKS)
def test_no_trace_is_left(name):
    network, x = build(name)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    random = torch.random.get_rng_state()
    tangent_kernel(network, x)
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
    assert all(p.grad is None for p in network.parameters())
    assert not any(module._forward_hooks for module in network.modules())
    assert torch.equal(random, torch.random.get_rng_state())
