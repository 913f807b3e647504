"""Handwritten digits, from MNIST's IDX files."""

from __future__ import annotations

from penchant_numerics.data import Data
from torch import Generator

from penchant_vision.datasets.idx_images import load_idx_images
from penchant_vision.declarations import Mnist


def load(options: Mnist, generator: Generator) -> Data:
    """Target of the dataset `mnist`."""
    return load_idx_images(options, generator)
