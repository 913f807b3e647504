"""Networks and samples without an effect, which worker processes can import as well."""

import math

import torch
from torch import nn

SMALL_RADIUS = 1.5


def isotropic(shape, outputs):
    """A linear network whose weights are normal: no direction is preferred."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), outputs))
    nn.init.normal_(network[1].weight, std=0.3)
    return network


def silent(shape, outputs):
    """A network whose weights are zero."""
    network = isotropic(shape, outputs)
    nn.init.zeros_(network[1].weight)
    return network


class OneAxis(nn.Module):
    """Tells two circles apart by their first coordinate alone, as well as that can be done."""

    def __init__(self, shape, outputs):
        super().__init__()
        self.outputs = outputs
        self.radius = nn.Parameter(torch.tensor(SMALL_RADIUS))

    def forward(self, x):
        beyond = x.flatten(1)[:, 0].abs() - self.radius
        return torch.stack([beyond, -beyond], 1)[:, : self.outputs]


def random_labels(generator):
    """Two classes that inputs say nothing about; some directions have more variance."""
    labels = torch.randint(2, (160,), generator=generator, device="cpu")
    inputs = torch.randn(160, 6, generator=generator, device="cpu")
    inputs = inputs * torch.linspace(2.0, 0.5, 6, device="cpu")
    return (inputs[:80], labels[:80]), (inputs[80:], labels[80:])
