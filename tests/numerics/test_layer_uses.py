"""How layers are used: is the first axis the sample, at how many positions."""

import torch
from penchant_numerics.jacobians import Outputs
from penchant_numerics.layers import layer_uses
from torch import nn


class Mixed(nn.Module):
    """A convolution, a layer used twice, a layer on folded samples, one on a parameter only."""

    def __init__(self):
        super().__init__()
        self.patches, self.again = nn.Conv2d(1, 4, 2, 2), nn.Linear(4, 4)
        self.folded, self.head = nn.Linear(4, 3), nn.Linear(3, 2)
        self.constant, self.start = nn.Linear(3, 3), nn.Parameter(torch.ones(1, 3, device="cpu"))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)  # (samples, 9, 4)
        x = self.again(self.again(x))
        x = self.folded(x.reshape(-1, 4)).reshape(len(x), 9, 3)
        return self.head(x.mean(1) + self.constant(self.start))


def test_positions_widths_and_first_axes_are_those_of_the_pass():
    network = Mixed()
    uses = layer_uses.layer_uses(Outputs(network), torch.zeros(1, 1, 6, 6, device="cpu"))
    assert {name for name, use in uses.items() if not use.sample_first} == {"folded", "constant"}
    sizes = {name: (use.positions, use.width, use.units) for name, use in uses.items()}
    assert sizes["patches"] == (9, 4, 4)
    assert sizes["again"] == (18, 4, 4)
    assert sizes["head"] == (1, 3, 2)
    assert not any(module._forward_hooks for module in network.modules())


def test_a_layer_that_is_never_called_is_not_there():
    network = nn.Sequential(nn.Linear(2, 2))
    network.unused = nn.Linear(2, 2)
    network.forward = lambda x: network[0](x)
    uses = layer_uses.layer_uses(Outputs(network), torch.zeros(3, 2, device="cpu"))
    assert list(uses) == ["0"]
