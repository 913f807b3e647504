"""What is not a function of one sample is refused by the name of the module; nothing is changed."""

import pytest
import torch
from penchant_numerics.device import check_deterministic
from penchant_numerics.device.determinism import NotDeterministicError
from torch import nn
from torch.nn import functional


class Noisy(nn.Module):
    def forward(self, x):
        return functional.dropout(x, 0.5)


class Centred(nn.Module):
    """Takes the mean over the batch away: samples mix."""

    def forward(self, x):
        return x - x.mean(0)


class Counting(nn.Module):
    """Changes its own state in every pass."""

    def __init__(self):
        super().__init__()
        self.register_buffer("passes", torch.zeros(1, device="cpu"))

    def forward(self, x):
        self.passes += 1
        return x + 0 * self.passes


def with_middle(middle):
    return nn.Sequential(nn.Linear(3, 4), nn.Sequential(middle), nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("middle", "message"),
    [
        (Noisy(), r"'1.0' \(Noisy\) gives other outputs for equal inputs"),
        (Centred(), r"'1.0' \(Centred\) mixes the samples of a batch"),
    ],
)
def test_the_module_that_is_no_function_of_a_sample_is_named(middle, message):
    network = with_middle(middle).eval()
    inputs = torch.ones(5, 3) * torch.arange(5)[:, None]
    before = torch.random.get_rng_state()
    with pytest.raises(NotDeterministicError, match=message):
        check_deterministic(network, inputs)
    assert torch.equal(before, torch.random.get_rng_state())


def test_networks_that_are_functions_pass_and_their_state_stays():
    network = with_middle(Counting()).eval()
    check_deterministic(network, torch.ones(5, 3))
    assert network[1][0].passes == 0
    assert not any(module._forward_hooks for module in network.modules())
    check_deterministic(with_middle(nn.Dropout(0.0)), torch.ones(1, 3))
