"""A wave on a flower: gamma_L(z) = (1 + sin(2 pi L z) / 2) (cos 2 pi z, sin 2 pi z)."""

import math

import torch
from penchant_numerics.data import Data, streams
from torch import Generator, Tensor

from penchant_synthetic.declarations import Flower
from penchant_synthetic.shared.embedding import embed
from penchant_synthetic.shared.waves import GRID, Wave, phase_stream, positions, splits


def load(options: Flower, generator: Generator) -> Data:
    """Target of the dataset `flower`."""
    for_phases, for_embedding = streams(generator, 2)
    arguments = positions(options.train)
    # What is to be learnt: a wave along the curve.
    phases = phase_stream(options.draw, for_phases)
    wave = Wave(options.frequencies, options.amplitudes, phases)
    values = wave(arguments)
    # The curve, embedded in the input.
    flower = curve(arguments, options.petals)
    inputs, convention = embed(flower, options.input_shape, options.embedding, for_embedding)
    conventions = {"phases": f"draw {options.draw}", "grid": GRID, "embedding": convention}
    if options.binary:
        labels = (values > options.threshold).long()
        conventions["labels"] = f"1 where the wave is above {options.threshold:g}"
    else:
        labels = values.float()
    train, test = splits(inputs, labels)
    return Data(train, test, classes=2 if options.binary else 0, conventions=conventions)


def curve(positions: Tensor, petals: int) -> Tensor:
    """Points (points, 2) of the flower; the unit circle without petals."""
    angle = 2 * math.pi * positions
    x, y = torch.cos(angle), torch.sin(angle)
    circle = torch.stack([x, y], dim=1)
    # Petals stretch and shrink the radius.
    radius = 1 + torch.sin(petals * angle) / 2
    return radius[:, None] * circle
