"""What mnist, fashion-mnist and kmnist share: four IDX files, sixty and ten thousand images."""

from __future__ import annotations

from penchant_numerics.data import Data
from torch import Generator

from penchant_vision.declarations import IdxImages
from penchant_vision.files.idx import read_splits
from penchant_vision.preparation import Source, completeness, prepare

COMPLETE_TRAIN, COMPLETE_TEST = 60000, 10000
WHITE = 255
CLASSES = 10


def load_idx_images(options: IdxImages, generator: Generator) -> Data:
    """The images of the dataset that the options are of, prepared as they say."""
    splits = read_splits(
        options.name, options.root, download=options.download, requested_by=options.name
    )
    # How much of the dataset is there reaches the result.
    train, of_train = completeness("training", len(splits.train.images), COMPLETE_TRAIN)
    test, of_test = completeness("test", len(splits.test.images), COMPLETE_TEST)
    source = Source(
        train=splits.train,
        test=splits.test,
        classes=CLASSES,
        white=WHITE,
        conventions={"training images": train, "test images": test},
        warnings=[*of_train, *of_test],
    )
    return prepare(options, source, generator)
