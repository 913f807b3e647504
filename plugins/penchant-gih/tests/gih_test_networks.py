"""Networks and samples without an effect, which worker processes can import as well."""

import math

import torch
from penchant_numerics.statistics import random_rotation
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


class FirstInput(nn.Module):
    """Sees its first input alone, through one weight per output: G and Delta are multiples of e e^T."""

    def __init__(self, shape, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        return self.weight * x[:, :1]


def turned_at_random(generator):
    """Normal samples whose covariance is turned at random by the seed, with random labels."""
    rotation = random_rotation(6, generator=generator).float()
    spreads = 2.0 ** -torch.arange(6, device="cpu")
    inputs = torch.randn(60, 6, generator=generator, device="cpu") * spreads.sqrt() @ rotation
    labels = torch.randint(2, (60,), generator=generator, device="cpu")
    return (inputs[:40], labels[:40]), (inputs[40:], labels[40:])
