"""A wave on a flower: gamma_L(z) = (1 + sin(2 pi L z) / 2) (cos 2 pi z, sin 2 pi z)."""

from __future__ import annotations

import math

import torch
from penchant_numerics.data import Data, Samples
from torch import Generator, Tensor

from penchant_synthetic import Flower
from penchant_synthetic._draws import streams
from penchant_synthetic._embedding import embed
from penchant_synthetic.sinusoids import GRID, Wave, phases, positions


def load(options: Flower, generator: Generator) -> Data:
    """Target of the dataset `flower`."""
    for_phases, for_embedding = streams(generator, 2)
    wave = Wave(
        options.frequencies, options.amplitudes, options.points, phases(options.draw, for_phases)
    )
    places = positions(options.points)
    inputs, placed = embed(
        curve(places, options.petals), options.size, options.embedding, for_embedding
    )
    values = wave(places)
    labels = (values > options.threshold).long() if options.binary else values.float()
    train, test = (
        Samples(inputs[part].float(), labels[part])
        for part in (slice(None, None, 2), slice(1, None, 2))
    )
    conventions = {"phases": f"draw {options.draw}", "grid": GRID, "embedding": placed}
    if options.binary:
        conventions["labels"] = f"1 where the wave is above {options.threshold:g}"
    return Data(train, test, classes=2 if options.binary else 0, conventions=conventions)


def curve(positions: Tensor, petals: int) -> Tensor:
    """Points (points, 2) of the flower; the unit circle without petals."""
    angle = 2 * math.pi * positions
    radius = 1 + torch.sin(petals * angle) / 2
    return radius[:, None] * torch.stack([torch.cos(angle), torch.sin(angle)], dim=1)
