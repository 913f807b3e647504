"""Linearisations: J v and J^T u are those of dense Jacobians, by both routes."""

import penchant_testing as testing
import pytest
import torch
from penchant_numerics.device import memory
from penchant_numerics.jacobians import (
    NoForwardDerivativeError,
    Outputs,
    any_direction,
    dual_pass,
    linearise,
)
from penchant_numerics.jacobians.linearisation import saved_bytes
from penchant_numerics.training import constructed
from torch import nn
from torch.func import functional_call, jacrev
from torch.nn import functional

DOUBLE = {"device": "cpu", "dtype": torch.float64}


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.last = nn.Linear(3, 9), nn.Linear(12, 2)

    def forward(self, x):
        tokens = self.mix(x.reshape(len(x), 1, 4, 3)).unflatten(-1, (3, 3))
        found = functional.scaled_dot_product_attention(*tokens.unbind(-2))
        return self.last(found.flatten(1))


class NoForward(torch.autograd.Function):
    """A square without forward-mode derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 2)

    def forward(self, x):
        return NoForward.apply(self.layer(x))


def perceptron():
    return nn.Sequential(nn.Linear(12, 5), nn.LayerNorm(5), nn.GELU(), nn.Linear(5, 2))


def convolutional():
    return nn.Sequential(
        nn.Unflatten(1, (1, 3, 4)),
        nn.Conv2d(1, 2, 2),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(12, 2),
    )


NETWORKS = {"perceptron": perceptron, "convolutional": convolutional, "attending": Attending}


def random(*shape, seed=0):
    stream = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(shape, generator=stream, **DOUBLE)


def network(name):
    return constructed(NETWORKS[name], 1).double().eval()


def dense_jacobian(module, inputs):
    """(samples, outputs, parameters)."""
    parameters = {name: value.detach() for name, value in module.named_parameters()}
    found = jacrev(lambda given: functional_call(module, given, (inputs,)))(parameters)
    return torch.cat([value.flatten(2) for value in found.values()], dim=2)


@pytest.mark.parametrize("route", ["dual", "double-backward"])
@pytest.mark.parametrize("name", NETWORKS)
def test_products_are_those_of_the_dense_jacobian(name, route):
    module, inputs = network(name), random(3, 12)
    line = linearise(Outputs(module), inputs, route=route, check=True)
    jacobian = dense_jacobian(module, inputs)
    rows = random(4, jacobian.shape[2], seed=1)
    cotangents = random(4, 3, 2, seed=2)
    torch.testing.assert_close(line.outputs, module(inputs).detach())
    torch.testing.assert_close(line.jvp(rows), torch.einsum("ncp,kp->knc", jacobian, rows))
    expected = torch.einsum("ncp,knc->kp", jacobian, cotangents)
    torch.testing.assert_close(line.vjp(cotangents), expected)
    total = torch.ones_like(expected)
    line.add_vjp(total, cotangents)
    torch.testing.assert_close(total, 1 + expected)
    assert line.bytes > 0


def test_batches_may_share_what_they_are_recorded_along():
    outputs = Outputs(network("perceptron"))
    shared = any_direction(outputs)
    row = random(1, outputs.layout.size, seed=1)
    for seed in (0, 1):
        inputs, u = random(3, 12, seed=seed), random(1, 3, 2, seed=2)
        own = linearise(outputs, inputs)
        line = linearise(outputs, inputs, tangents=shared, check=True)
        assert torch.equal(line.jvp(row), own.jvp(row))
        assert torch.equal(line.vjp(u), own.vjp(u))
        assert line.bytes == own.bytes


def test_some_parameters_only():
    module, inputs = network("perceptron"), random(3, 12)
    outputs = Outputs(module, "3.*")
    jacobian = dense_jacobian(module, inputs)[:, :, -12:]
    row = random(1, 12, seed=1)
    found = linearise(outputs, inputs).jvp(row)
    torch.testing.assert_close(found[0], jacobian @ row[0])


def test_an_operation_without_forward_derivative_is_named_and_the_other_route_has_it():
    module, inputs = constructed(Custom, 1).double(), random(3, 12)
    outputs = Outputs(module)
    with pytest.raises(NoForwardDerivativeError, match="a custom autograd.Function"):
        linearise(outputs, inputs)
    line = linearise(outputs, inputs, route="double-backward")
    row = random(1, outputs.layout.size, seed=1)
    made = module.layer(inputs).detach()
    slopes = dense_jacobian(module.layer, inputs) @ row[0]
    torch.testing.assert_close(line.jvp(row)[0], 2 * made * slopes)


def test_other_errors_pass_through():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        linearise(Outputs(network("perceptron")), random(3, 7))


def test_outputs_must_be_rows():
    outputs = Outputs(nn.Sequential(nn.Linear(12, 8), nn.Unflatten(1, (2, 2, 2))).double())
    message = r"expected outputs \(samples, classes\), or .*, found .*3, 2, 2, 2"
    with pytest.raises(ValueError, match=message):
        outputs(outputs.values, random(3, 12))


def test_outputs_that_parameters_do_not_reach_have_no_slope():
    class Deaf(nn.Module):
        def __init__(self):
            super().__init__()
            self.unused = nn.Linear(2, 2)

        def forward(self, x):
            return x[:, :2]

    outputs = Outputs(Deaf().double())
    tangents = [torch.ones_like(value, requires_grad=True) for value in outputs.values]
    values, slope, tape = dual_pass(outputs, random(3, 12), tangents)
    assert tape is None and torch.equal(slope, torch.zeros_like(values))
    assert slope.requires_grad


def test_the_network_is_left_as_it_was():
    module, inputs = network("convolutional"), random(3, 12)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    line = linearise(Outputs(module), inputs)
    line.vjp(line.jvp(random(2, Outputs(module).layout.size)))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())


def test_saved_bytes_are_those_that_autograd_keeps():
    x = random(50).requires_grad_()
    assert saved_bytes(lambda: x.exp().sum(), known=[x]) == 50 * 8  # the exponentials
    assert saved_bytes(lambda: x.square().sum(), known=[x]) == 0
    assert saved_bytes(lambda: x.square().sum(), known=[]) == 50 * 8


def test_blocks_elsewhere_than_on_a_cpu_are_products_of_as_many_vectors_as_fit():
    module = nn.Sequential(nn.Linear(12, 150), nn.Tanh(), nn.Linear(150, 120), nn.Linear(120, 2))
    inputs = random(3, 12).float()
    outputs = Outputs(module)
    assert outputs.layout.size > 2**14
    rows = random(5, outputs.layout.size).float()
    line = linearise(outputs, inputs)
    assert line.together == 1
    forth = line.jvp(rows)
    back = line.vjp(forth)
    with testing.emulated_device():
        module.to("emulated")
        there = linearise(Outputs(module), inputs.to("emulated"))
        assert there.together > 1000
        with memory.budget(8 * there.bytes):
            some = linearise(Outputs(module), inputs.to("emulated"))
        assert some.together == 2
        for each in (there, some):
            torch.testing.assert_close(each.jvp(rows.to("emulated")).cpu(), forth)
            found = each.vjp(forth.to("emulated")).cpu()
            torch.testing.assert_close(found, back, rtol=1e-4, atol=1e-4)
