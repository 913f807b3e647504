"""Linear layers: their gradient is that of inputs and errors at their positions, and of nothing else."""

import pytest
import torch
from penchant_numerics.layers import (
    error_positions,
    input_positions,
    is_gradient,
    is_linear,
    shared_parameters,
    takes_batch,
    watched,
)
from torch import nn

DOUBLE = {"device": "cpu", "dtype": torch.float64}
LAYERS = {
    "linear": (nn.Linear(5, 3), (4, 5)),
    "tokens": (nn.Linear(5, 3), (4, 7, 5)),
    "signal": (nn.Conv1d(2, 3, 3, stride=2, padding=1, dilation=2), (4, 2, 9)),
    "image": (nn.Conv2d(2, 3, (3, 2), stride=(1, 2), padding=(1, 0)), (4, 2, 6, 7)),
}


def random(*shape, seed=0):
    stream = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(shape, generator=stream, **DOUBLE)


@pytest.mark.parametrize("name", LAYERS)
def test_the_gradient_of_weights_is_the_sum_over_positions(name):
    layer, shape = LAYERS[name]
    layer = layer.double()
    inputs = random(*shape)
    outputs = layer(inputs)
    errors = random(*outputs.shape, seed=1)
    weight, bias = torch.autograd.grad(outputs, (layer.weight, layer.bias), errors)

    h = input_positions(layer, inputs)  # (n, t, d)
    d = error_positions(layer, errors[:, None])[:, 0]  # (n, t, o)
    found = torch.einsum("nto,ntd->od", d, h)
    torch.testing.assert_close(found, weight.flatten(1))
    torch.testing.assert_close(d.sum((0, 1)), bias)
    assert is_gradient(found, weight.flatten(1))
    assert not is_gradient(found * 1.01, weight.flatten(1))
    assert is_linear(layer) and takes_batch(layer, inputs)


@pytest.mark.parametrize(
    "module",
    [
        nn.Conv2d(4, 4, 3, groups=2),
        nn.Conv2d(1, 1, 3, padding="same"),
        nn.Conv1d(1, 1, 3, padding=1, padding_mode="circular"),
        nn.Bilinear(2, 2, 1),
        nn.LayerNorm(3),
    ],
)
def test_other_modules_are_not_linear_layers(module):
    assert not is_linear(module)


def test_a_single_image_is_not_a_batch():
    assert not takes_batch(nn.Conv2d(1, 1, 3), random(1, 5, 5))
    assert not takes_batch(nn.Conv1d(1, 1, 3), random(1, 5))
    assert not takes_batch(nn.Linear(5, 1), random(5))


def test_every_use_is_seen_and_hooks_are_removed_also_after_an_error():
    layer = nn.Linear(2, 2).double()
    seen = []

    def see(name, given, made):
        seen.append((name, given))
        return 2 * made

    with watched({"own": layer}, see):
        first = layer(random(3, 2))
        second = layer(first)
        layer(input=first)  # without a positional argument nothing is seen
    assert [name for name, _ in seen] == ["own", "own"]
    torch.testing.assert_close(seen[1][1], first)
    torch.testing.assert_close(second, 2 * layer(first))

    with pytest.raises(RuntimeError), watched({"own": layer}, see):
        layer(random(3, 5))
    assert not layer._forward_hooks


def test_nothing_is_the_gradient_of_nothing():
    zeros = torch.zeros(3, **DOUBLE)
    assert is_gradient(zeros, zeros)


def test_tied_weights_are_named_twice():
    network = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3))
    assert shared_parameters(network) == set()
    network[2].weight = network[0].weight
    assert shared_parameters(network) == {"0.weight", "2.weight"}
