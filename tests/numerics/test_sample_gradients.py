"""Gradients sample by sample: vectorised, one by one, and on tokens."""

import pytest
import torch
from penchant_numerics.device.vectorisation import NotVectorisedWarning
from penchant_numerics.jacobians import Outputs, sample_gradients
from torch import nn


def normal(*shape, seed=0):
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cpu", dtype=torch.float64)


def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def test_both_routes_give_the_gradients_of_single_samples():
    outputs, x = Outputs(network()), normal(5, 3)
    vectorised = sample_gradients._vectorised(outputs, x)
    single = sample_gradients._one_by_one(outputs, x)
    for name, first, second in zip(outputs.layout.names, vectorised, single):
        torch.testing.assert_close(first, second)
        value = dict(outputs.network.named_parameters())[name]
        for i, c in ((0, 1), (4, 0)):
            (exact,) = torch.autograd.grad(outputs.network(x[i : i + 1])[0, c], value)
            torch.testing.assert_close(first[i, c], exact)


def test_errors_of_the_network_itself_are_not_hidden():
    with (
        pytest.warns(NotVectorisedWarning, match="shapes cannot be multiplied"),
        pytest.raises(RuntimeError, match="shapes cannot be multiplied"),
    ):
        sample_gradients.sample_gradients(Outputs(network()), normal(5, 7))


def test_tokens_are_given_back_whole_and_no_hook_stays():
    embedding = nn.Embedding(300, 2)
    tokens = torch.tensor([[299, 1]], device="cpu")
    with sample_gradients.floating_inputs(embedding, tokens, torch.float32) as floating:
        assert floating.is_floating_point()
        assert torch.equal(embedding(floating), embedding(tokens))
    assert not embedding._forward_pre_hooks
    # single precision rounds from 2^24 on, double precision from 2^53 on
    large = tokens + 2**24 - 298
    with sample_gradients.floating_inputs(embedding, large, torch.float32) as floating:
        assert torch.equal(floating.long(), large)
    with (
        pytest.raises(ValueError, match="up to 9007199254740993 are not exact in torch.float64"),
        sample_gradients.floating_inputs(embedding, tokens + 2**53 - 298, torch.float32),
    ):
        pass
