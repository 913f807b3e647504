"""Small images, which worker processes can import as well."""

import math

import torch
from torch import nn


def images(generator):
    labels = torch.arange(120, device="cpu") % 5
    pixels = torch.rand(120, 2, 6, 6, generator=generator, device="cpu")
    pixels[torch.arange(120, device="cpu"), 0, labels, labels] += 1
    return (pixels[:80], labels[:80]), (pixels[80:], labels[80:])


def few(generator):
    labels = torch.arange(48, device="cpu") % 4
    pixels = torch.rand(48, 2, 4, 4, generator=generator, device="cpu")
    return (pixels[:32], labels[:32]), (pixels[32:], labels[32:])


def grey(generator):
    labels = torch.arange(40, device="cpu") % 5
    pixels = torch.rand(40, 1, 4, 4, generator=generator, device="cpu")
    return (pixels[:24], labels[:24]), (pixels[24:], labels[24:])


def numbers(generator):
    pixels = torch.rand(120, 2, 6, 6, generator=generator, device="cpu")
    return (pixels[:80], pixels[:80, 0, 0, 0]), (pixels[80:], pixels[80:, 0, 0, 0])


def isotropic(shape, outputs):
    """A linear network whose weights are normal: no direction is preferred."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), outputs))
    nn.init.normal_(network[1].weight, std=0.3)
    return network


class HalfBlind(nn.Module):
    """Sees the upper half of the image."""

    def __init__(self, shape, outputs):
        super().__init__()
        _, self.height, self.width = shape
        self.linear = nn.Linear(self.height // 2 * self.width, outputs)

    def forward(self, x):
        return self.linear(x[:, :, : self.height // 2].flatten(1))


class Blind(nn.Module):
    """Its answer is its bias."""

    def __init__(self, shape, outputs):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        return self.bias.expand(len(x), -1)
