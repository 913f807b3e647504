"""Second derivatives through normalisation layers, against double backward and differences."""

import functools

import pytest
import torch
from penchant_gih.geometry_evolution.evolution import mixed_products
from penchant_gih.input_curvature.probe import curvature_terms
from penchant_gih.shared.gradients import stacked, tensors_of
from penchant_numerics.device import safe
from torch import nn

CPU = {"device": "cpu", "dtype": torch.float64}
CHANNELS = 4


class Tokens(nn.Module):
    """A ViT in small: patches, a layer norm before attention and before the perceptron."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(1, CHANNELS, 2, stride=2)
        self.before_attention = nn.LayerNorm(CHANNELS)
        self.attention = nn.MultiheadAttention(CHANNELS, 2, batch_first=True)
        self.before_perceptron = nn.LayerNorm(CHANNELS)
        self.perceptron = nn.Sequential(nn.Linear(CHANNELS, 6), nn.GELU(), nn.Linear(6, CHANNELS))
        self.head = nn.Linear(CHANNELS, 1)

    def forward(self, x):
        tokens = self.patches(x).flatten(2).mT
        normed = self.before_attention(tokens)
        tokens = tokens + self.attention(normed, normed, normed)[0]
        tokens = tokens + self.perceptron(self.before_perceptron(tokens))
        return self.head(tokens.mean(1))


class Recurrent(nn.Module):
    """Rows of the image one after another."""

    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.LSTMCell(4, 5)])
        self.head = nn.Linear(5, 1)

    def forward(self, x):
        state = None
        for row in x[:, 0].unbind(1):
            state = self.cells[0](row, state)
        return self.head(state[0])


def convolutional(norm):
    layers = [nn.Conv2d(1, CHANNELS, 3, padding=1), norm, nn.GELU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(16 * CHANNELS, 1))


def network(kind, seed):
    """A network of this kind for inputs (1, 4, 4), in double precision and evaluation mode."""
    torch.manual_seed(seed)
    made = MAKERS[kind]()
    for module in made.modules():
        if isinstance(module, nn.LayerNorm | nn.GroupNorm | nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1.0, 0.3)
            nn.init.normal_(module.bias, 0.0, 0.3)
        if isinstance(module, nn.BatchNorm2d) and module.running_var is not None:
            nn.init.uniform_(module.running_var, 0.5, 2.0)
    return made.double().eval()


MAKERS = {
    "layer norm, attention": Tokens,
    "layer norm over images": lambda: convolutional(nn.LayerNorm([CHANNELS, 4, 4])),
    "group norm": lambda: convolutional(nn.GroupNorm(2, CHANNELS)),
    "batch norm": lambda: convolutional(nn.BatchNorm2d(CHANNELS)),
    "batch statistics": lambda: convolutional(nn.BatchNorm2d(CHANNELS, track_running_stats=False)),
    "LSTM": Recurrent,
}


def normal(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator("cpu").manual_seed(seed), **CPU)


def slopes(module, x, along):
    """The derivative of the summed outputs along parameters u, by one backward pass."""
    parameters = dict(module.named_parameters())
    total = module(x).sum()
    found = torch.autograd.grad(total, list(parameters.values()), create_graph=True)
    return sum((each * along[name]).sum() for name, each in zip(parameters, found))


def differences(function, x, step=1e-5):
    """Central differences (D,) of a scalar function of x."""
    found = []
    for unit in torch.eye(x.numel(), **CPU).reshape(-1, *x.shape):
        found.append((function(x + step * unit) - function(x - step * unit)) / (2 * step))
    return torch.stack(found).detach()


@pytest.mark.parametrize("kind", MAKERS)
def test_mixed_products_are_those_of_double_backward_and_of_differences(kind):
    modules = [safe(network(kind, seed)) for seed in (0, 1)]
    ensemble = stacked(modules[0], [tensors_of(module) for module in modules])
    points = normal(2, 2, 1, 4, 4, seed=2)
    along = {
        name: normal(2, *parameter.shape, seed=number)
        for number, (name, parameter) in enumerate(modules[0].named_parameters())
    }
    found = mixed_products(ensemble, along, points)
    for number, module in enumerate(modules):
        own = {name: value[number] for name, value in along.items()}
        x = points[number].clone().requires_grad_()
        (dense,) = torch.autograd.grad(slopes(module, x, own), x)
        torch.testing.assert_close(found[number], dense.flatten(1), rtol=1e-9, atol=1e-10)
        near = differences(functools.partial(slopes, module, along=own), points[number])
        torch.testing.assert_close(found[number].flatten(), near, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", MAKERS)
def test_input_hessians_are_those_of_double_backward_and_of_differences(kind):
    module = safe(network(kind, 0)).requires_grad_(False)
    inputs, targets = normal(3, 1, 4, 4, seed=1), torch.tensor([1.0, -1.0, 1.0], **CPU)
    found = curvature_terms(module, inputs, targets, loss="cross-entropy")
    slope = torch.sigmoid(module(inputs)[:, 0]) - (targets + 1) / 2

    def weighted(shift):
        return (slope * module(inputs + shift.reshape(1, 4, 4))[:, 0]).mean()

    zero = torch.zeros(16, **CPU)
    dense = torch.autograd.functional.hessian(weighted, zero)
    torch.testing.assert_close(found["second"], dense, rtol=1e-9, atol=1e-10)

    def first_entry(shift):
        moved = shift.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(weighted(moved), moved)
        return gradient[0]

    near = differences(first_entry, zero)
    torch.testing.assert_close(found["second"][0], near, rtol=1e-5, atol=1e-7)
