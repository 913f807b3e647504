"""Articles of clothing, from Fashion-MNIST's IDX files."""

from __future__ import annotations

from penchant_numerics.data import Data
from torch import Generator

from penchant_vision.datasets.idx_images import load_idx_images
from penchant_vision.declarations import FashionMnist


def load(options: FashionMnist, generator: Generator) -> Data:
    """Target of the dataset `fashion-mnist`."""
    return load_idx_images(options, generator)
