"""What no probe can measure is refused in a sentence that says how to mend it."""

import pytest
import torch
from outside_networks import HOSTILE, made
from penchant_numerics.device import UnsuitableNetworkError, suitability
from torch import nn

KINDS = {
    "complex parameters": "parameter 'first.weight' is complex64; probes measure real parameters: "
    r"hold real and imaginary parts as real numbers \(torch.view_as_real\)",
    "complex buffer": "buffer 'angles' is complex64",
    "jit.trace": "it is a ScriptModule of torch.jit; give the module that it was made from",
    "jit.script": "it is a ScriptModule",
    "weight_norm, old": r"module '0' recomputes its weight in a hook \(WeightNorm\), which no copy "
    "can; torch.nn.utils.parametrizations.weight_norm is the same",
    "spectral_norm, old": r"hook \(SpectralNorm\).*parametrizations.spectral_norm",
    "pruned": r"hook \(L1Unstructured\).*torch.nn.utils.prune.remove",
    "quantised": r"module '0' \(Linear\) is quantised and has no derivatives; give the network from",
    "meta device": r"parameter '0.weight' has no values \(device meta\)",
    "lazy": "parameter '0.weight' has no shape yet; pass one batch",
}
FUNCTIONS = {
    "changes its input": "it changes its input in place; let forward begin with x = x.clone",
    "in-place activation first": "it changes its input in place",
    "functional dropout": r"module '1' \(Between\) gives other outputs for equal inputs the second "
    r"time; let forward be without random numbers.*dropout\(x, p, training=self.training\)",
    "noise": r"module '1' \(Between\) gives other outputs for equal inputs",
    "batch centred": r"module '1' \(Between\) mixes the samples of a batch; let forward compute",
    "remembering": "it gives other outputs for equal inputs the second time",
}
GOOD = ["mlp", "weight_norm", "Fourier inside", "seeding", "branching", "tied weights"]


def network(name):
    return made("hostile", name) if name in HOSTILE else made("torch", name)


@pytest.mark.parametrize("name", KINDS)
def test_kinds_are_refused_before_anything_is_computed(name):
    with pytest.raises(UnsuitableNetworkError, match=KINDS[name]):
        suitability.check_kind(network(name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_no_function_of_a_sample_is_refused(name):
    inputs = torch.linspace(-1, 2, 32).reshape(4, 8)
    given, state = inputs.clone(), torch.random.get_rng_state()
    with pytest.raises(UnsuitableNetworkError, match=FUNCTIONS[name]):
        suitability.check_function(network(name), inputs)
    assert torch.equal(inputs, given)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("name", GOOD)
def test_good_networks_pass_and_are_left_as_they_were(name):
    found = network(name)
    before = {key: value.clone() for key, value in found.state_dict().items()}
    state = torch.random.get_rng_state()
    suitability.check_kind(found)
    suitability.check_values(found)
    suitability.check_evaluated(found)
    suitability.check_function(found, torch.linspace(-1, 2, 32).reshape(4, 8))
    assert all(torch.equal(value, before[key]) for key, value in found.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_batch_statistics_are_refused_unless_they_are_meant():
    found = network("no running statistics")
    inputs = torch.randn(4, 8)
    message = r"module '1' \(BatchNorm1d\) normalises by the batch at hand: it has no running"
    with pytest.raises(UnsuitableNetworkError, match=message):
        suitability.check_evaluated(found)
    suitability.check_evaluated(found, batch_statistics=True)
    suitability.check_function(found, inputs, batch_statistics=True)
    # Only what the policy is about may mix samples.
    mixing = nn.Sequential(found, network("batch centred")[1])
    with pytest.raises(UnsuitableNetworkError, match=r"module '0.1' \(BatchNorm1d\) mixes"):
        suitability.check_function(mixing, inputs)
    stubborn = network("stubborn batch norm")
    stubborn(inputs)
    with pytest.raises(UnsuitableNetworkError, match="in training mode in every pass"):
        suitability.check_evaluated(stubborn, batch_statistics=True)


def test_weights_that_are_not_finite_are_named():
    message = "'0.weight' has 1 of 48 values that are not finite; the training diverged"
    with pytest.raises(UnsuitableNetworkError, match=message):
        suitability.check_values(network("NaN weight"))


def test_wrappers_are_taken_off():
    inside = nn.Linear(2, 1)
    assert suitability.unwrapped(nn.DataParallel(inside)) is inside
    assert suitability.unwrapped(torch.compile(inside)) is inside
    assert suitability.unwrapped(inside) is inside


def test_embeddings_give_the_same_gradients_densely():
    sparse, tokens = network("sparse embedding"), torch.randint(2, 30, (4, 8))
    sparse(tokens).sum().backward()
    expected = sparse.embed.weight.grad.to_dense()
    sparse.zero_grad()
    suitability.use_dense_gradients(sparse)
    sparse(tokens).sum().backward()
    assert sparse.embed.weight.grad.layout is torch.strided
    torch.testing.assert_close(sparse.embed.weight.grad, expected)
