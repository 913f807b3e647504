"""A sampled delta peak on a line: all frequencies have the same amplitude."""

import torch
from penchant_numerics.data import Data
from torch import Generator

from penchant_synthetic.declarations import Peak
from penchant_synthetic.shared.embedding import embed
from penchant_synthetic.shared.waves import GRID, positions, splits


def load(options: Peak, generator: Generator) -> Data:
    """Target of the dataset `peak`."""
    arguments = positions(options.train)
    line = arguments[:, None]
    inputs, convention = embed(line, options.input_shape, options.embedding, generator)
    # Points of the grid are the even positions.
    nearest = round(options.position * options.train) % options.train
    labels = torch.zeros(2 * options.train, device="cpu")
    labels[2 * nearest] = options.height
    train, test = splits(inputs, labels)
    return Data(
        train,
        test,
        classes=0,
        conventions={"peak": "one point of the grid", "grid": GRID, "embedding": convention},
    )
