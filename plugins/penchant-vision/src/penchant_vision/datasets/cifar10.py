"""Photographs of ten kinds of animals and vehicles, from CIFAR-10's batches."""

from __future__ import annotations

from penchant_numerics.data import Data
from torch import Generator

from penchant_vision.declarations import Cifar10
from penchant_vision.files.cifar_batches import read_cifar
from penchant_vision.preparation import prepare


def load(options: Cifar10, generator: Generator) -> Data:
    """Target of the dataset `cifar10`."""
    source = read_cifar("cifar10", options)
    return prepare(options, source, generator)
