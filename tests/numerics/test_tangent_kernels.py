"""Tangent kernels by layer structure against dense Jacobians, and the Gauss-Newton spectrum that follows."""
# ruff: noqa: T201 (the numbers are shown with -s)

import functools

import pytest
import torch
from penchant_numerics.curvature import GaussNewton, gauss_newton_spectrum
from penchant_numerics.curvature.sample_traces import sample_traces
from penchant_numerics.device import LiveBytes
from penchant_numerics.device.vectorisation import NotVectorisedWarning
from penchant_numerics.jacobians import Outputs
from penchant_numerics.layers import layer_kernels, tangent_kernel
from penchant_numerics.layers.kernel_blocks import KernelLayers
from torch import nn
from torch.func import functional_call, jacrev

SAMPLES = 6


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


class LeNet(nn.Sequential):
    """Two convolutions with pooling, two linear layers."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 3, 3),
            nn.ReLU(),
            nn.AvgPool2d(2),
            nn.Conv2d(3, 4, 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16, 6),
            nn.ReLU(),
            nn.Linear(6, 3),
        )


class Residual(nn.Module):
    """A residual block with batch-norm, and a shortcut of another width."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.again = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        self.shortcut, self.head = nn.Conv2d(2, 4, 1, bias=False), nn.Linear(4, 3)

    def forward(self, x):
        inner = self.again(self.second(torch.relu(self.norm(self.first(x)))))
        return self.head(torch.relu(inner + self.shortcut(x)).mean((2, 3)))


class Transformer(nn.Module):
    """A small ViT: patches, a class token, positions, torch's own attention; or sequences first."""

    def __init__(self, samples_first=True):
        super().__init__()
        self.samples_first = samples_first
        self.patches = nn.Conv2d(1, 4, 2, 2)
        self.token, self.places = (
            nn.Parameter(torch.rand(1, 1, 4)),
            nn.Parameter(torch.rand(1, 5, 4)),
        )
        self.block = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=samples_first)
        self.norm, self.head = nn.LayerNorm(4), nn.Linear(4, 3)

    def forward(self, x):
        patches = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), patches], dim=1) + self.places
        x = self.block(x) if self.samples_first else self.block(x.transpose(0, 1)).transpose(0, 1)
        return self.head(self.norm(x[:, 0]))


class Embedded(nn.Module):
    """Tokens, which are whole numbers."""

    def __init__(self):
        super().__init__()
        self.embed, self.mix, self.head = nn.Embedding(7, 5), nn.Linear(5, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.mix(self.embed(x))).mean(1))


class Windows(nn.Module):
    """Windows folded into the batch, as in Swin."""

    def __init__(self):
        super().__init__()
        self.inside, self.head = nn.Linear(5, 6), nn.Linear(6, 3)

    def forward(self, x):
        inside = torch.tanh(self.inside(x.reshape(2 * len(x), -1, 5)))
        return self.head(inside.reshape(len(x), -1, 6).mean(1))


class Recurrent(nn.Module):
    """An LSTM, which cannot be vectorised over samples."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(self.cell(x)[0][:, -1])


NETWORKS = {
    "mlp": mlp,
    "convolutions": convolutions,
    "twice": lambda: (Twice(), (5,)),
    "tied": lambda: (Tied(), (5,)),
    "tokens": lambda: (Tokens(), (4, 9)),
    "lenet": lambda: (LeNet(), (1, 8, 8)),
    "residual": lambda: (Residual(), (2, 5, 5)),
    "transformer": lambda: (Transformer(), (1, 4, 4)),
    "embedded": lambda: (Embedded(), (4,)),
}
FOREIGN = {
    "sequence-first": (lambda: (Transformer(samples_first=False), (1, 4, 4)), "block.linear1"),
    "windows": (lambda: (Windows(), (4, 5)), "inside"),
}
FEW = ["mlp", "convolutions", "twice"]


def build(name):
    makers = NETWORKS | {key: make for key, (make, _) in FOREIGN.items()}
    makers["recurrent"] = lambda: (Recurrent(), (6, 4))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network, shape = makers[name]()
        network = network.double().eval()
        if name == "embedded":
            return network, torch.randint(0, 7, (SAMPLES, *shape))
        return network, torch.randn(SAMPLES, *shape, dtype=torch.float64)


def jacobian(network, x, names=None):
    """All gradients (n C, parameters), as torch.func gives them."""
    chosen = {
        name: value.detach()
        for name, value in network.named_parameters()
        if names is None or name in names
    }
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        columns = jacrev(lambda parameters: functional_call(network, parameters, (x,)))(chosen)
    return torch.cat(
        [each.reshape(*each.shape[:2], -1) for each in columns.values()], dim=2
    ).flatten(0, 1)


@functools.cache
def known_jacobian(name):
    """That of a network of this file, which several tests only read."""
    return jacobian(*build(name))


def close(found, expected, tolerance=1e-11):
    away = (found - expected).detach().abs().max()
    size = expected.detach().abs().max()
    assert float(away) <= tolerance * max(1.0, float(size))


@pytest.mark.parametrize("name", NETWORKS)
def test_kernel_is_that_of_the_dense_jacobian(name):
    network, x = build(name)
    J = known_jacobian(name)
    other = x[:3] // 2 if name == "embedded" else x[:3] + 1
    J_other = jacobian(network, other)
    for memory in (None, 1):  # all at once, and sample by sample with nothing kept
        K = tangent_kernel(network, x, batch=4, memory=memory)
        close(K, J @ J.T)
        close(tangent_kernel(network, x, other=other, batch=4, memory=memory), J @ J_other.T)


@pytest.mark.parametrize("name", FOREIGN)
def test_layers_whose_first_axis_is_not_the_sample_go_by_gradients_and_it_is_said(name):
    network, x = build(name)
    layer = FOREIGN[name][1]
    J = jacobian(network, x)
    for samples in (SAMPLES, 5):  # 5 tokens: the first axis has the length of the batch by chance
        with pytest.warns(UserWarning, match=f"gradients of {layer}.* are taken sample by sample"):
            K = tangent_kernel(network, x[:samples])
        close(K, J[: 3 * samples] @ J[: 3 * samples].T)
    routes = KernelLayers(Outputs(network, None), x).routes()
    assert routes[layer] == "gradients of samples, because its first axis is not the sample"
    assert routes["head"] == "inputs and errors"


def test_what_cannot_be_vectorised_is_passed_sample_by_sample():
    network, x = build("recurrent")
    J = jacobian(network, x)
    with pytest.warns(NotVectorisedWarning, match="gradients of samples are taken one by one"):
        close(tangent_kernel(network, x), J @ J.T)
    with pytest.warns(NotVectorisedWarning):
        close(sum(layer_kernels(network, x, batch=4).values()), J @ J.T)


def test_features_stay_within_the_memory_that_is_given():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(512, 2),
        )
        x = torch.randn(40, 1, 8, 8)
    peaks, kernels = [], []
    budgets = (2**24, 2**20)
    for memory in budgets:
        with LiveBytes(peaks=True) as live:
            kernels.append(tangent_kernel(network, x, memory=memory))
        peaks.append(live.peak - kernels[-1].nbytes)
    print(f"budgets {budgets}: {peaks} bytes at most")
    assert peaks[0] > 2 * budgets[1]  # the smaller budget is one that binds
    for peak, memory in zip(peaks, budgets):
        assert peak <= memory
    torch.testing.assert_close(*kernels, rtol=1e-4, atol=1e-3)


def test_kernel_and_metric_share_their_spectrum():
    network, x = build("lenet")
    J = known_jacobian("lenet")
    kernel = torch.linalg.eigvalsh(tangent_kernel(network, x)).flip(0)
    metric = torch.linalg.eigvalsh(J.T @ J).flip(0)
    count = min(len(kernel), len(metric))
    close(kernel[:count], metric[:count])
    assert float(kernel[count:].abs().sum() + metric[count:].abs().sum()) < 1e-10 * float(kernel[0])


@pytest.mark.parametrize(
    ("name", "factored"),
    [
        ("mlp", {"0", "2"}),
        ("convolutions", {"0", "3", "7"}),
        ("twice", {"first", "again", "last"}),
        ("tied", {"first", "last"}),
        ("tokens", {"mix", "wide", "head"}),
        ("residual", {"first", "second", "shortcut", "head"}),
        ("embedded", {"mix", "head"}),
    ],
)
def test_layers_go_by_factors_where_their_gradient_is_that_of_their_factors(name, factored):
    network, x = build(name)
    routes = KernelLayers(Outputs(network, None), x).routes()
    assert {layer for layer, route in routes.items() if route == "inputs and errors"} == factored


@pytest.mark.parametrize("name", NETWORKS)
def test_layer_kernels_are_those_of_their_parameters_and_add_up(name):
    network, x = build(name)
    kernels = layer_kernels(network, x, batch=4)
    close(sum(kernels.values()), tangent_kernel(network, x))
    for layer, kernel in kernels.items():
        names = [each for each, _ in network.named_parameters() if each.rpartition(".")[0] == layer]
        J = jacobian(network, x, names)
        close(kernel, J @ J.T)


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
    J = known_jacobian(name).reshape(SAMPLES, -1, sum(p.numel() for p in network.parameters()))
    H = torch.eye(J.shape[1], dtype=torch.float64).expand(SAMPLES, -1, -1)
    if loss == "cross-entropy":
        p = network(x).detach().softmax(1)
        H = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    exact = torch.einsum("nap,nab,nbp->n", J, H, J)
    close(sample_traces(network, x, loss=loss, batch=4), exact)
    close(sample_traces(network, x, loss=loss, memory=1), exact)


def test_more_rows_than_a_matrix_may_have_are_refused():
    network, x = build("mlp")
    with pytest.raises(ValueError, match="at most 20 samples x outputs, found 24"):
        gauss_newton_spectrum(network, (x, None), largest=20)


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
