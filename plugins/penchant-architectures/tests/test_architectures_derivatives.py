"""Second derivatives: every architecture can be differentiated twice, in both modes, and evaluated stacked."""

import importlib

import penchant_architectures
import pytest
import torch
from torch.func import functional_call, grad, grad_and_value, jvp, stack_module_state, vmap

COMPONENTS = {each.name: each for each in penchant_architectures.penchant_architectures()}
SMOOTH = {
    "logistic": ((3, 4), {}),
    "mlp": ((3, 4), {"widths": [7, 5], "activation": "gelu"}),
    "lenet": ((1, 16, 16), {"activation": "gelu", "pooling": "average"}),
    "vgg11": (
        (1, 32, 32),
        {"activation": "gelu", "pooling": "average", "width": 4, "classifier": [16]},
    ),
    "vgg19": ((1, 32, 32), {"activation": "tanh", "pooling": "average", "width": 4}),
    "resnet18": ((1, 6, 6), {"activation": "gelu", "width": 4}),
    "resnet20": ((1, 8, 8), {"activation": "sine"}),
    "densenet121": ((1, 8, 8), {"activation": "gelu"}),
    "vit": ((1, 16, 16), {"layers": 3}),
    "linear-pooling": ((12,), {"stride": 3, "prefilter": "average"}),
    "linear-conv": ((5, 6), {"padding": "circular"}),
}
KINKED = {  # piecewise linear: a difference quotient that crosses a kink is no derivative
    "mlp": ((3, 4), {"widths": [7, 5]}),
    "lenet": ((1, 16, 16), {}),
    "vgg19": ((1, 32, 32), {"width": 4, "normalization": "batch"}),
    "resnet20": ((1, 8, 8), {}),
    "linear-pooling": ((12,), {"stride": 3, "activation": "relu"}),
}
# Blocks that no option is about: their number is nothing to a derivative.
SMALLER = {"densenet121": ("densenet121.BLOCKS", (2, 3, 2, 2))}
CASES = [
    *((name, *case, True) for name, case in SMOOTH.items()),
    *((name, *case, False) for name, case in KINKED.items()),
]


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def target_of(component):
    module, _, function = component.target.partition(":")
    return getattr(importlib.import_module(module), function)


def build(name, shape, seed=0, **options):
    component = COMPONENTS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return target_of(component)(component.bind(options), shape, 1).eval().double()


def shrink(name, monkeypatch):
    if name in SMALLER:
        constant, value = SMALLER[name]
        monkeypatch.setattr(f"penchant_architectures.architectures.{constant}", value)


def close(found, expected, tolerance):
    scale = max(each.norm().item() for each in expected)
    assert all(
        (a - b).norm().item() <= tolerance * scale for a, b in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize(("name", "shape", "options", "smooth"), CASES)
def test_mixed_derivative_by_independent_routes(name, shape, options, smooth, monkeypatch):
    """Derivative of the parameter gradient along an input direction: forward mode, double backward, finite difference."""
    shrink(name, monkeypatch)
    network = build(name, shape, **options)
    parameters = {key: value.detach() for key, value in network.named_parameters()}
    buffers = dict(network.named_buffers())
    x, u = torch.randn(
        2, 1, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )

    def parameter_gradient(point):
        gradient = grad(lambda each: functional_call(network, {**each, **buffers}, (point,)).sum())(
            parameters
        )
        return [gradient[key] for key in parameters]

    _, forward = jvp(parameter_gradient, (x,), (u,))
    close(double_backward(network, x, u), forward, 1e-9)
    if smooth:
        h = 1e-5
        plus, minus = parameter_gradient(x + h * u), parameter_gradient(x - h * u)
        close([(a - b) / (2 * h) for a, b in zip(plus, minus)], forward, 1e-6)


def double_backward(network, x, u):
    point = x.clone().requires_grad_(True)
    (input_gradient,) = torch.autograd.grad(network(point).sum(), point, create_graph=True)
    return torch.autograd.grad(
        (input_gradient * u).sum(), list(network.parameters()), materialize_grads=True
    )


@pytest.mark.parametrize("name", SMOOTH)
def test_stacked_networks_equal_single_ones(name, monkeypatch):
    shrink(name, monkeypatch)
    shape, options = SMOOTH[name]
    networks = [build(name, shape, seed=seed, **options) for seed in (0, 1)]
    stacked = stack_module_state(networks)
    x = torch.randn(2, *shape, dtype=torch.float64)

    def output(points, *state):
        values = functional_call(networks[0], state, (points,))
        return values.sum(), values

    differentiated = grad_and_value(output, has_aux=True)
    gradients, (_, found) = vmap(differentiated, in_dims=(None, 0, 0))(x, *stacked)
    for network, gradient, values in zip(networks, gradients, found, strict=True):
        point = x.clone().requires_grad_(True)
        expected = network(point)
        torch.testing.assert_close(values, expected)
        torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), point)[0])
