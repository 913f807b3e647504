"""The digits that come with scikit-learn."""

from __future__ import annotations

import torch
from penchant_numerics.data import Data
from sklearn.datasets import load_digits
from torch import Generator, Tensor

from penchant_vision import Digits
from penchant_vision._preparation import Pixels, Source, prepare

WHITE = 16


def load(options: Digits, generator: Generator) -> Data:
    """Target of the dataset `digits`."""
    bunch = load_digits()
    images = torch.from_numpy(bunch.images).to(torch.uint8)[:, None]
    labels = torch.from_numpy(bunch.target).to(torch.int64)
    held_out = _every_fifth_of_each_class(labels)
    train, test = (Pixels(images[part], labels[part]) for part in (~held_out, held_out))
    return prepare(
        options,
        Source(
            train, test, 10, WHITE, {"split": "every fifth sample of each class is a test sample"}
        ),
        generator,
    )


def _every_fifth_of_each_class(labels: Tensor) -> Tensor:
    chosen = torch.zeros(len(labels), device="cpu", dtype=torch.bool)
    for label in range(10):
        chosen[torch.nonzero(labels == label).flatten()[4::5]] = True
    return chosen
