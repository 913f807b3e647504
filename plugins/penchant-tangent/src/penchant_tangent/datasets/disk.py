"""Points of a square; the class says whether they lie in a disk of half its area."""

import math

import torch
from penchant_numerics.data import Data, Samples, streams

from penchant_tangent.declarations.eigenfunctions import Disk

RADIUS = math.sqrt(2 / math.pi)


def load(options: Disk, generator: torch.Generator) -> Data:
    """Target of the dataset `disk`."""
    # more training samples do not change the test samples
    first, second = streams(generator, 2)
    train = _points(options.train, first)
    test = _points(options.test, second)
    return Data(train, test, classes=2)


def _points(count: int, generator: torch.Generator) -> Samples:
    """Points of the square, uniformly."""
    shares = torch.rand(count, 2, generator=generator, device="cpu")
    inputs = shares * 2 - 1

    # which of them are in the disk
    radii = inputs.norm(dim=1)
    inside = radii <= RADIUS
    return Samples(inputs, inside.long())
