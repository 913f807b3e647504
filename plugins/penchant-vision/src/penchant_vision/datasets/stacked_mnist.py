"""Stacked MNIST: three digits as colour channels, from MNIST's IDX files."""

from __future__ import annotations

import torch
from penchant_numerics.data import Data, Samples, streams
from torch import Generator

from penchant_vision.declarations import StackedMnist
from penchant_vision.files.idx import read_splits
from penchant_vision.preparation import Pixels, resized

WHITE = 255
MODES = 1000
CONVENTIONS = {
    "modes": "digits of the channels read as a number, first channel first",
    "pixels": "0 to 1",
}


def load(options: StackedMnist, generator: Generator) -> Data:
    """Target of the dataset `stacked-mnist`."""
    for_train, for_test = streams(generator, 2)
    digits = read_splits(
        "mnist", options.root, download=options.download, requested_by=options.name
    )
    conventions = dict(CONVENTIONS)
    if options.resize is not None:
        conventions["resize"] = "bilinear, antialiased"
    return Data(
        train=stack(digits.train, options.train, for_train, side=options.resize),
        test=stack(digits.test, options.test, for_test, side=options.resize),
        classes=MODES,
        conventions=conventions,
    )


def stack(digits: Pixels, count: int, generator: Generator, *, side: int | None = None) -> Samples:
    """Images (count, 3, height, width) in [0, 1] of digits chosen with replacement; their modes."""
    chosen = torch.randint(len(digits.images), (count, 3), generator=generator, device="cpu")
    grey = digits.images.to(torch.float32) / WHITE
    # Single digits are scaled, before most of them are used several times.
    if side is not None:
        grey = resized(grey, side)
    # A channel each; (count, 3, height, width).
    images = grey[:, 0][chosen]
    # The digits of a number: hundreds, tens, ones.
    powers = torch.tensor([100, 10, 1], device="cpu")
    labels = digits.labels[chosen]
    modes = (labels * powers).sum(1)
    return Samples(images, modes)
