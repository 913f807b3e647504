"""Points along a spiral arm: the dataset `spiral`."""

import math

import torch
from penchant_numerics.data import Data
from torch import Generator, Tensor

from penchant_mine.datasets.splits import train_and_test
from penchant_mine.declarations.datasets import Spiral

END = 2.0  # distance of the arm's end from the origin


def load(options: Spiral, generator: Generator) -> Data:
    """Target of the dataset `spiral`."""

    def draw(count: int, stream: Generator) -> tuple[Tensor, Tensor]:
        # The root makes points uniform along the length of the arm, nearly.
        along = torch.rand(count, 1, generator=stream, device="cpu").sqrt()
        angle = 2 * math.pi * options.turns * along
        arm = END * along * torch.cat([angle.cos(), angle.sin()], 1)
        noise = torch.randn(count, 2, generator=stream, device="cpu")
        return arm + options.noise_std * noise, along

    # The label is a number, not a class: probes cut it into segments.
    train, test = train_and_test(draw, generator, train=options.train, test=options.test)
    return Data(train, test, classes=0)
