"""The mixed second derivative against dense autodiff in double precision, closed forms and finite differences."""

import functools
import math

import penchant_testing as testing
import pytest
import torch
from penchant_numerics.device import safe
from penchant_numerics.inputs import MixedDerivative, first_output
from penchant_numerics.inputs.mixed_factors import find_layers
from torch import nn
from torch.func import functional_call, grad, jacfwd, jacrev

DOUBLE = {"device": "cpu", "dtype": torch.float64}


class Tokens(nn.Module):
    """Patches of a 4 x 4 image as 4 tokens, behind a class token."""

    def __init__(self, width):
        super().__init__()
        self.patches = nn.Conv2d(1, width, 2, stride=2)
        self.token = nn.Parameter(torch.randn(1, 1, width))

    def forward(self, x):
        return torch.cat([self.token.expand(len(x), -1, -1), self.patches(x).flatten(2).mT], dim=1)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attention(h, h, h)[0]
        return x + self.mlp(self.norm2(x))


class First(nn.Module):
    def forward(self, x):
        return x[:, 0]


class Twice(nn.Module):
    """One layer used twice, and a weight that two layers share."""

    def __init__(self):
        super().__init__()
        self.inner, self.last = nn.Linear(24, 24), nn.Linear(24, 2)
        self.one, self.other = nn.Linear(24, 24), nn.Linear(24, 24)
        self.other.weight = self.one.weight

    def forward(self, x):
        x = torch.tanh(self.inner(torch.tanh(self.inner(x.flatten(1)))))
        return self.last(torch.tanh(self.other(torch.tanh(self.one(x)))))


class Elsewhere(nn.Module):
    """A layer whose weight is also used without calling the layer."""

    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.Linear(24, 24), nn.Linear(24, 1)

    def forward(self, x):
        return self.last(torch.tanh(self.layer(x)) + torch.sin(x @ self.layer.weight))


class Windows(nn.Module):
    """Pieces of the input as further samples of a batch."""

    def __init__(self):
        super().__init__()
        self.inner, self.last = nn.Linear(12, 30), nn.Linear(30, 1)

    def forward(self, x):
        return self.last(torch.tanh(self.inner(x.reshape(-1, 12))).reshape(len(x), 2, 30).prod(1))


def mlp(activation=nn.GELU):
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(24, 20),
        activation(),
        nn.Linear(20, 16),
        activation(),
        nn.Linear(16, 1),
    )


def lenet():
    convolutions = [
        nn.Conv2d(1, 4, 3),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 10, 2),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
    ]
    return nn.Sequential(
        *convolutions, nn.Linear(10, 40), nn.GELU(), nn.Linear(40, 30), nn.GELU(), nn.Linear(30, 1)
    )


def wide_convolutions():
    layers = [
        nn.Conv2d(1, 12, 3, padding=1, stride=2),
        nn.BatchNorm2d(12),
        nn.Tanh(),
        nn.Conv2d(12, 14, 3, dilation=2, padding=1),
    ]
    grouped = [nn.Tanh(), nn.Conv2d(14, 14, 3, groups=14, padding=1), nn.Tanh()]
    return nn.Sequential(*layers, *grouped, nn.Flatten(), nn.Linear(56, 2, bias=False))


def transformer():
    return safe(
        nn.Sequential(Tokens(12), Block(12), Block(12), First(), nn.LayerNorm(12), nn.Linear(12, 1))
    )


CASES = {
    "mlp": (mlp, (24,)),
    "lenet": (lenet, (1, 8, 8)),
    "transformer": (transformer, (1, 4, 4)),
    "wide convolutions": (wide_convolutions, (1, 7, 7)),
    "made safe": (lambda: safe(wide_convolutions()), (1, 7, 7)),
    "used twice": (Twice, (24,)),
    "used elsewhere": (Elsewhere, (24,)),
    "windows": (Windows, (24,)),
}


def case(name):
    make, shape = CASES[name]
    torch.manual_seed(1)
    module = make().to(**DOUBLE).eval()
    state = {
        key: value.detach() for key, value in (*module.named_parameters(), *module.named_buffers())
    }
    return module, state, torch.randn(shape, **DOUBLE)


def dense(module, state, point, inner=grad):
    """M by torch.func, {parameter: (numbers, inputs)}.

    `jacfwd(grad)`, because `jacfwd(jacrev)` is wrong for the weights of layer-norms (torch 2.13; differences of plain backward
    passes tell); without layer-norms both are compared.
    """
    parameters = {name: state[name] for name, _ in module.named_parameters()}

    def output(given, x):
        return first_output(functional_call(module, {**state, **given}, (x[None],)))[0]

    found = jacfwd(inner(output), argnums=1)(parameters, point)
    return {name: value.reshape(-1, point.numel()) for name, value in found.items()}


@functools.cache
def known_columns(name):
    """The dense M of a case, which several tests only read."""
    return dense(*case(name))


@pytest.fixture(autouse=True)
def _keep_random_state():
    with torch.random.fork_rng(devices=[]):
        yield


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("share", "by_products"), [(1, False), (5, False), (5, True)])
def test_gram_is_that_of_the_dense_derivative(name, share, by_products):
    """Also where only a fifth of it may be held: parameters and columns in turn, or products."""
    columns = torch.cat(list(known_columns(name).values()))
    module, state, point = case(name)
    with testing.strict_devices():
        needed = (
            sum(group.floats for group in MixedDerivative(module, point).groups) * point.numel() * 8
        )
        mixed = MixedDerivative(module, point, column_bytes=needed // share)
        mixed.by_products = by_products
        gram = mixed.gram(state)
    torch.testing.assert_close(
        gram, columns.T @ columns, rtol=1e-8, atol=1e-8 * float(gram.abs().max())
    )
    assert share == 1 or len(mixed.groups) > 1


@pytest.mark.parametrize(
    ("name", "share"),
    [("mlp", 1), ("mlp", 40), ("lenet", 1), ("lenet", 5), ("wide convolutions", 5)],
)
def test_no_column_is_computed_more_than_twice(name, share, monkeypatch):
    """However little may be held: rows that pass forth and back are counted."""
    module, state, point = case(name)
    passed = []
    for way in ("apply", "adjoint", "_exact_columns"):
        monkeypatch.setattr(MixedDerivative, way, counted(MixedDerivative, way, passed))
    needed = (
        sum(group.floats for group in MixedDerivative(module, point).groups) * point.numel() * 8
    )
    mixed = MixedDerivative(module, point, column_bytes=needed // share)
    mixed.gram(state)
    assert point.numel() <= sum(passed) <= 2 * point.numel()


def counted(kind, way, passed):
    """A method that notes how many columns it is asked for."""
    method = getattr(kind, way)

    def noting(self, state, *given):
        if way == "_exact_columns":
            _, first, last = given
            passed.append(last - first)
        else:
            rows = given[0] if way == "apply" else next(iter(given[0].values()))
            passed.append(len(rows))
        return method(self, state, *given)

    return noting


def test_a_network_of_real_size_is_applied_instead_of_computing_columns_again_and_again():
    """ResNet18 at 3 x 32 x 32: blocks of columns would take 47.8 times the columns there are."""
    from penchant_architectures.architectures.resnet18 import build
    from penchant_architectures.declarations.convolutional import ResNet18

    network = build(ResNet18(), (3, 32, 32), 1).eval()
    mixed = MixedDerivative(network, torch.zeros(3, 32, 32, device="cpu"))
    assert mixed.columns_computed() > 20 * mixed.size
    assert mixed.by_products


@pytest.mark.parametrize("name", ["mlp", "lenet", "wide convolutions", "used twice"])
def test_gram_is_that_of_forward_over_reverse_jacobians(name):
    module, state, point = case(name)
    columns = torch.cat(list(dense(module, state, point, inner=jacrev).values()))
    gram = MixedDerivative(module, point).gram(state)
    torch.testing.assert_close(
        gram, columns.T @ columns, rtol=1e-8, atol=1e-8 * float(gram.abs().max())
    )


@pytest.mark.parametrize("name", CASES)
def test_products_are_those_of_the_dense_derivative(name):
    columns = known_columns(name)
    module, state, point = case(name)
    mixed = MixedDerivative(module, point)
    directions = torch.randn(3, point.numel(), **DOUBLE)
    for key, found in mixed.apply(state, directions).items():
        torch.testing.assert_close(
            found.flatten(1), directions @ columns[key].T, rtol=1e-8, atol=1e-8
        )
    cotangents = {key: torch.randn(3, *state[key].shape, **DOUBLE) for key in columns}
    expected = sum(cotangents[key].flatten(1) @ columns[key] for key in columns)
    torch.testing.assert_close(mixed.adjoint(state, cotangents), expected, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(
        mixed.gram_times(state, directions), directions @ mixed.gram(state), rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("step", [None, 0.5])
def test_adjoint_identity_holds_to_rounding(name, step):
    module, state, point = case(name)
    mixed = MixedDerivative(module, point, step=step)
    v = torch.randn(2, point.numel(), **DOUBLE)
    u = {key: torch.randn(2, *state[key].shape, **DOUBLE) for key in mixed.names}
    images = mixed.apply(state, v)
    left = sum((u[key] * images[key]).flatten(1).sum(1) for key in u)
    right = (mixed.adjoint(state, u) * v).sum(1)
    scale = sum(u[key].norm() * images[key].norm() for key in u)
    assert float((left - right).abs().max()) < 1e-10 * float(scale)


@pytest.mark.parametrize("name", ["mlp", "transformer", "wide convolutions", "used twice"])
def test_finite_differences_converge_at_second_order(name):
    module, state, point = case(name)
    exact = MixedDerivative(module, point).gram(state)
    steps = (4e-2, 2e-2, 1e-2)
    errors = [
        float((MixedDerivative(module, point, step=step).gram(state) - exact).norm() / exact.norm())
        for step in steps
    ]
    orders = [math.log2(wide / narrow) for wide, narrow in zip(errors, errors[1:])]
    assert all(1.9 < order < 2.1 for order in orders), (errors, orders)


@pytest.mark.parametrize("name", ["mlp", "lenet", "transformer", "used twice"])
def test_gram_of_differences_is_that_of_its_own_columns(name):
    module, state, point = case(name)
    mixed = MixedDerivative(
        module, point, step=20.0
    )  # large: nothing like a derivative, and still one definite matrix
    directions = torch.randn(6, point.numel(), **DOUBLE)
    images = mixed.apply(state, directions)
    columns = torch.cat([image.flatten(1) for image in images.values()], dim=1)
    torch.testing.assert_close(
        directions @ mixed.gram(state) @ directions.T, columns @ columns.T, rtol=1e-8, atol=1e-10
    )


@pytest.mark.parametrize("name", ["lenet", "transformer"])
def test_columns_of_differences_are_backward_passes_on_both_sides(name):
    module, state, point = case(name)
    mixed = MixedDerivative(module, point, step=3.0)
    unit = torch.zeros(1, point.numel(), **DOUBLE)
    unit[0, 11] = 1

    def gradient(x):
        module.zero_grad()
        module(x[None]).backward()
        return {name: value.grad.clone() for name, value in module.named_parameters()}

    forward, backward = (
        gradient(point + sign * 3.0 * unit.reshape(point.shape)) for sign in (1, -1)
    )
    for name, column in mixed.apply(state, unit).items():
        torch.testing.assert_close(
            column[0], (forward[name] - backward[name]) / 6.0, rtol=1e-9, atol=1e-12
        )


def test_bilinear_network_gives_the_identity_exactly():
    module = nn.Sequential(nn.Flatten(), nn.Linear(30, 1))
    state = {name: value.detach() for name, value in module.named_parameters()}
    gram = MixedDerivative(module, torch.randn(1, 5, 6, device="cpu")).gram(state)
    assert torch.equal(gram, torch.eye(30, device="cpu"))


def test_layers_that_other_code_uses_are_not_taken_apart():
    module, _, point = case("used twice")
    assert [layer.name for layer in find_layers(module, point)] == ["inner", "last"]
    assert next(layer.rows for layer in find_layers(module, point)) == 2
    module, _, point = case("used elsewhere")
    assert [layer.name for layer in find_layers(module, point)] == ["last"]
    module, _, point = case("transformer")
    assert not any("attention" in layer.name for layer in find_layers(module, point))


def test_the_derivative_is_never_formed():
    """The largest tensor that a Gram matrix needs is far smaller than parameters x inputs."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        numbers = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for each in out if isinstance(out, (tuple, list)) else (out,):
                if isinstance(each, torch.Tensor):
                    self.numbers = max(self.numbers, each.numel())
            return out

    module = nn.Sequential(
        nn.Linear(784, 100), nn.GELU(), nn.Linear(100, 100), nn.GELU(), nn.Linear(100, 1)
    )
    state = {name: value.detach() for name, value in module.named_parameters()}
    mixed = MixedDerivative(module, torch.randn(784, device="cpu"))
    with Largest() as largest:
        mixed.gram(state)
    assert largest.numbers <= 784 * 784 < 784 * sum(value.numel() for value in state.values()) / 100
