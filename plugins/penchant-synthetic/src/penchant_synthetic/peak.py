"""A sampled delta peak on a line: all frequencies have the same amplitude."""

from __future__ import annotations

import torch
from penchant_numerics.data import Data, Samples
from torch import Generator

from penchant_synthetic import Peak
from penchant_synthetic._embedding import embed
from penchant_synthetic.sinusoids import GRID, positions


def load(options: Peak, generator: Generator) -> Data:
    """Target of the dataset `peak`."""
    places = positions(options.points)
    inputs, placed = embed(places[:, None], options.size, options.embedding, generator)
    labels = torch.zeros(2 * options.points, device="cpu")
    labels[2 * (round(options.position * options.points) % options.points)] = options.height
    train, test = (
        Samples(inputs[part].float(), labels[part])
        for part in (slice(None, None, 2), slice(1, None, 2))
    )
    return Data(
        train,
        test,
        classes=0,
        conventions={"peak": "one point of the grid", "grid": GRID, "embedding": placed},
    )
