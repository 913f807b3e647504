"""CIFAR-10 as animals (class 1) against the rest (class 0)."""

from __future__ import annotations

import torch
from penchant_numerics.data import Data
from torch import Generator

from penchant_vision.declarations import Cifar2
from penchant_vision.files.cifar_batches import read_cifar
from penchant_vision.preparation import Pixels, Source, prepare

ANIMALS = (2, 3, 4, 5, 6, 7)  # bird, cat, deer, dog, frog, horse


def load(options: Cifar2, generator: Generator) -> Data:
    """Target of the dataset `cifar2`."""
    kinds = read_cifar("cifar10", options)
    source = _animals_or_not(kinds)
    return prepare(options, source, generator)


def _animals_or_not(source: Source) -> Source:
    # Conventions and warnings are those of the ten kinds.
    return source._replace(
        train=_relabelled(source.train),
        test=_relabelled(source.test),
        classes=2,
        conventions={**source.conventions, "class 1": "animals"},
    )


def _relabelled(pixels: Pixels) -> Pixels:
    animals = torch.tensor(ANIMALS, device="cpu")
    is_animal = torch.isin(pixels.labels, animals)
    labels = is_animal.to(torch.int64)
    return pixels._replace(labels=labels)
