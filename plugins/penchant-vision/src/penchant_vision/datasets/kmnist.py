"""Cursive Japanese characters, from KMNIST's IDX files."""

from __future__ import annotations

from penchant_numerics.data import Data
from torch import Generator

from penchant_vision.datasets.idx_images import load_idx_images
from penchant_vision.declarations import Kmnist


def load(options: Kmnist, generator: Generator) -> Data:
    """Target of the dataset `kmnist`."""
    return load_idx_images(options, generator)
