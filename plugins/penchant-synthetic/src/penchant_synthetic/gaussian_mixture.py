"""Classes that differ by their means: x = t e_c + N(0, I)."""

from __future__ import annotations

import torch
from penchant_numerics.data import Data, Samples
from torch import Generator

from penchant_synthetic import GaussianMixture
from penchant_synthetic._draws import balanced_labels, normal_rows, streams


def load(options: GaussianMixture, generator: Generator) -> Data:
    """Target of the dataset `gaussian-mixture`."""
    train, test = (
        _draw(count, options, stream)
        for count, stream in zip((options.train, options.test), streams(generator, 2))
    )
    return Data(train, test, classes=options.classes)


def _draw(count: int, options: GaussianMixture, generator: Generator) -> Samples:
    for_labels, for_noise = streams(generator, 2)
    labels = balanced_labels(count, options.classes, for_labels)
    inputs = normal_rows(count, options.dimension, for_noise)
    inputs[torch.arange(count, device="cpu"), labels] += options.separation
    return Samples(inputs, labels)
