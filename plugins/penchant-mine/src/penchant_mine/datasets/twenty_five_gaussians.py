"""A 5 x 5 grid of normal blobs: the dataset `twenty-five-gaussians`."""

import torch
from penchant_numerics.data import Data
from torch import Generator, Tensor

from penchant_mine.datasets.splits import train_and_test
from penchant_mine.declarations.datasets import TwentyFiveGaussians

BLOBS, A_ROW = 25, 5


def load(options: TwentyFiveGaussians, generator: Generator) -> Data:
    """Target of the dataset `twenty-five-gaussians`."""

    def draw(count: int, stream: Generator) -> tuple[Tensor, Tensor]:
        labels = torch.randint(BLOBS, (count,), generator=stream, device="cpu")
        # Blobs are numbered row by row around the origin.
        row, column = labels // A_ROW - 2, labels % A_ROW - 2
        centres = torch.stack([row, column], 1) * options.spacing
        noise = torch.randn(count, 2, generator=stream, device="cpu")
        return centres + options.noise_std * noise, labels

    train, test = train_and_test(draw, generator, train=options.train, test=options.test)
    return Data(train, test, classes=BLOBS)
