"""Photographs of a hundred kinds of things, from CIFAR-100's batches."""

from __future__ import annotations

from penchant_numerics.data import Data
from torch import Generator

from penchant_vision.declarations import Cifar100
from penchant_vision.files.cifar_batches import read_cifar
from penchant_vision.preparation import prepare


def load(options: Cifar100, generator: Generator) -> Data:
    """Target of the dataset `cifar100`."""
    source = read_cifar("cifar100", options)
    return prepare(options, source, generator)
