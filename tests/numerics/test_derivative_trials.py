"""Which derivatives a network has: kinks are no errors of torch, and what is lacking is named."""

import re

import pytest
import torch
from outside_networks import made
from penchant_numerics.device import KINK, SECOND, TRIALS, derivative_trials
from torch import nn


class ZeroScaled(nn.Module):
    """As a residual branch begins: its scale is 0, so every ReLU is exactly at its kink."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 2)
        self.scale = nn.Parameter(torch.zeros(5))

    def forward(self, x):
        return self.last(torch.relu(self.scale * self.first(x)))


class Wrong(torch.autograd.Function):
    """A square whose second derivative is half of what it should be."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return (x + x.detach()) * gradient


class WronglyTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 3)

    def forward(self, x):
        return Wrong.apply(self.first(x))


def second(network):
    torch.manual_seed(0)
    points = derivative_trials.random_points((4,))
    return derivative_trials.problem_of(TRIALS[SECOND], network, points)


def test_a_kink_is_not_taken_for_a_wrong_derivative():
    torch.manual_seed(0)
    network = ZeroScaled()
    assert second(network) == KINK
    # The difference grows as its step shrinks, which a wrong derivative does not do.
    (point, *_) = derivative_trials.random_points((4,))
    jumps = []
    for step in (1e-6, 1e-5):
        value, expected = TRIALS[SECOND](network.double(), point, step)
        jumps.append(abs(expected - value))
    assert jumps[0] == pytest.approx(10 * jumps[1], rel=0.01)


def test_a_wrong_derivative_is_still_found():
    assert second(WronglyTwice()).startswith("wrong, and torch does not say so: ")
    assert second(nn.Sequential(nn.Linear(4, 3), nn.Softplus(), nn.Linear(3, 2))) == ""
    # A kink somewhere else is crossed by no difference.
    assert second(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))) == ""


@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        ("in-place activation", "has no gradients in its parameters: .*; let forward write x = "),
        ("numpy inside", "has no gradients in its inputs: .*; let forward not detach"),
        ("weight_norm", ""),
        ("custom function", "vmap.*; give its torch.autograd.Function a setup_context"),
    ],
)
def test_what_a_network_lacks_is_named_with_what_to_do(name, lacking):
    inputs = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(3, 8)
    found = derivative_trials.why_not(made("hostile", name), inputs)
    assert bool(found) == bool(lacking)
    assert re.search(lacking, found), found
