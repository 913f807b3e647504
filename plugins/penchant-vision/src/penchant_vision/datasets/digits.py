"""The digits that come with scikit-learn."""

from __future__ import annotations

import torch
from penchant_numerics.data import Data
from sklearn.datasets import load_digits
from torch import Generator, Tensor

from penchant_vision.declarations import Digits
from penchant_vision.preparation import Pixels, Source, prepare

WHITE = 16
CLASSES = 10
SPLIT = "every fifth sample of each class is a test sample"


def load(options: Digits, generator: Generator) -> Data:
    """Target of the dataset `digits`."""
    bunch = load_digits()
    images = torch.from_numpy(bunch.images).to(torch.uint8)[:, None]
    labels = torch.from_numpy(bunch.target).to(torch.int64)
    # Nothing is sampled: the split is the same for every seed.
    held_out = _every_fifth_of_each_class(labels)
    source = Source(
        train=Pixels(images[~held_out], labels[~held_out]),
        test=Pixels(images[held_out], labels[held_out]),
        classes=CLASSES,
        white=WHITE,
        conventions={"split": SPLIT},
    )
    return prepare(options, source, generator)


def _every_fifth_of_each_class(labels: Tensor) -> Tensor:
    chosen = torch.zeros(len(labels), device="cpu", dtype=torch.bool)
    for label in range(CLASSES):
        members = torch.nonzero(labels == label).flatten()
        fifths = members[4::5]
        chosen[fifths] = True
    return chosen
