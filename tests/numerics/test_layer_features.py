"""Tangent features by layer: inner products of gradients are those of dense Jacobians."""

import pytest
import torch
from penchant_numerics.layers import Factored, TangentFeatures
from penchant_numerics.layers.layer_features import Rows
from penchant_numerics.training import constructed
from torch import nn
from torch.func import functional_call, jacrev

DOUBLE = {"device": "cpu", "dtype": torch.float64}


class Folded(nn.Module):
    """Windows of the input as further samples of a batch."""

    def __init__(self):
        super().__init__()
        self.inner, self.last = nn.Linear(6, 5), nn.Linear(5, 2)

    def forward(self, x):
        windows = torch.tanh(self.inner(x.reshape(-1, 6)))
        return self.last(windows.reshape(len(x), 2, 5).prod(1))


class TokensFirst(nn.Module):
    """Tokens come first and samples second, as torch's encoders have it by default."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0)
        self.encoder, self.last = (
            nn.TransformerEncoder(layer, 1, enable_nested_tensor=False),
            nn.Linear(6, 2),
        )

    def forward(self, x):
        tokens = x.reshape(len(x), 2, 6).transpose(0, 1)
        return self.last(self.encoder(tokens).mean(0))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other, self.last = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 2)
        self.other.weight = self.one.weight

    def forward(self, x):
        return self.last(torch.tanh(self.other(torch.tanh(self.one(x)))))


def signals():
    return nn.Sequential(
        nn.Unflatten(1, (2, 6)),
        nn.Conv1d(2, 3, 3, padding=1),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(18, 2),
    )


def images():
    return nn.Sequential(
        nn.Unflatten(1, (1, 3, 4)), nn.Conv2d(1, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(18, 2)
    )


def normalised():
    return nn.Sequential(nn.Linear(12, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 2, bias=False))


CASES = {
    "signals": (signals, {"1", "4"}),
    "images": (images, {"1", "4"}),
    "normalised": (normalised, {"0", "3"}),
    "folded": (Folded, {"last"}),
    "tied": (Tied, {"last"}),
    "tokens first": (TokensFirst, {"last"}),
}


def case(name, samples=3):
    make, layers = CASES[name]
    network = constructed(make, 1).double().eval()
    stream = torch.Generator("cpu").manual_seed(0)
    return network, torch.randn(samples, 12, generator=stream, **DOUBLE), layers


def dense_gram(network, inputs):
    """Inner products (n, C, n, C) of the gradients of all outputs, by torch.func."""
    parameters = {name: value.detach() for name, value in network.named_parameters()}
    jacobian = jacrev(lambda given: functional_call(network, given, (inputs,)))(parameters)
    rows = torch.cat([value.flatten(2) for value in jacobian.values()], dim=2)
    return torch.einsum("icp,jdp->icjd", rows, rows)


def gram(features, others):
    first = next(iter(features.values())).squares()
    shape = (len(first), first.shape[1]) * 2
    total = torch.zeros(shape, **DOUBLE)
    for name, each in features.items():
        each.add_gram(total, others[name])
    return total


@pytest.mark.parametrize("name", CASES)
def test_inner_products_are_those_of_dense_gradients(name):
    network, inputs, layers = case(name)
    features = TangentFeatures(network, inputs[:2])
    assert set(features.layers) == layers
    found, again = features(inputs), features(inputs)
    torch.testing.assert_close(gram(found, found), dense_gram(network, inputs))
    torch.testing.assert_close(gram(found, again), dense_gram(network, inputs))


@pytest.mark.parametrize("name", CASES)
def test_squares_are_the_inner_products_of_one_sample(name):
    network, inputs, _ = case(name)
    features = TangentFeatures(network, inputs[:2])
    squares = sum(each.squares() for each in features(inputs).values())
    expected = torch.einsum("icid->icd", dense_gram(network, inputs))
    torch.testing.assert_close(squares, expected)


@pytest.mark.parametrize("samples", [2, 3])
def test_layers_that_see_tokens_before_samples_are_never_taken_for_others(samples):
    """Also where there are as many tokens as samples, so that shapes say nothing."""
    network, inputs, layers = case("tokens first", samples)
    features = TangentFeatures(network, inputs)
    assert set(features.layers) == layers
    torch.testing.assert_close(
        gram(features(inputs), features(inputs)), dense_gram(network, inputs)
    )


def test_chosen_parameters_only():
    network, inputs, _ = case("normalised")
    features = TangentFeatures(network, inputs, parameters="0.*")
    found = features(inputs)
    assert set(found) == {"0"} and isinstance(found["0"], Factored)
    features = TangentFeatures(network, inputs, parameters="1.*")
    found = features(inputs)
    assert not features.layers and isinstance(found["1"], Rows)


def test_the_network_is_left_as_it_was():
    network, inputs, _ = case("images")
    before = {name: value.clone() for name, value in network.state_dict().items()}
    TangentFeatures(network, inputs)(inputs)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())
    assert not any(module._forward_hooks for module in network.modules())


def test_memory_is_that_of_the_tensors():
    network, inputs, _ = case("normalised")
    found = TangentFeatures(network, inputs)(inputs)
    assert found["0"].bytes == 8 * (3 * 1 * 12 + 3 * 2 * 1 * 4)
    assert found["1"].bytes == 8 * 3 * 2 * 8
