"""CIFAR-10 and CIFAR-100, from their binary or pickled batches.

A binary record is one label byte (CIFAR-100: coarse, then fine) and 3072 pixels: red, green and blue planes, each row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from penchant_numerics.data import Data
from torch import Generator, Tensor

from penchant_vision import StoredImages
from penchant_vision._files import completeness, data_folder, files_missing, wrong_file
from penchant_vision._mirrors import fetch_archive
from penchant_vision._preparation import Pixels, Source, prepare
from penchant_vision._unpickling import read_arrays

PIXELS = 3 * 32 * 32
ANIMALS = (2, 3, 4, 5, 6, 7)  # bird, cat, deer, dog, frog, horse
COMPLETE = {"training": 50000, "test": 10000}


class Edition(NamedTuple):
    """CIFAR-10 or CIFAR-100: its classes, label bytes in a record (the last one counts), and its labels' name in a pickle."""

    classes: int
    label_bytes: int
    label_key: str


class Batches(NamedTuple):
    """One way the files are laid out."""

    folder: str
    train: tuple[str, ...]
    test: str
    read: Callable[[Path, Edition], Pixels]


def load(options: StoredImages, generator: Generator) -> Data:
    """Target of the datasets `cifar10`, `cifar100` and `cifar2`."""
    dataset = "cifar100" if options.name == "cifar100" else "cifar10"
    edition, layouts = EDITIONS[dataset], LAYOUTS[dataset]
    batches, names = _find(options, dataset, layouts)
    folder = data_folder(options) / batches.folder
    parts = [batches.read(folder / name, edition) for name in names]
    train, test = (
        Pixels(*(torch.cat(each) for each in zip(*parts))),
        batches.read(folder / batches.test, edition),
    )
    conventions, warnings = _account(batches, names, train, test)
    source = Source(train, test, edition.classes, 255, conventions, warnings)
    return prepare(
        options, _animals_or_not(source) if options.name == "cifar2" else source, generator
    )


def read_binary(path: Path, edition: Edition) -> Pixels:
    """A batch of fixed-length records."""
    raw = np.fromfile(path, np.uint8)
    length = edition.label_bytes + PIXELS
    if not len(raw) or len(raw) % length:
        raise wrong_file(path, f"{len(raw)} bytes", f"a whole number of records of {length} bytes")
    records = raw.reshape(-1, length)
    labels = _checked(path, records[:, edition.label_bytes - 1], edition)
    return Pixels(
        torch.from_numpy(records[:, edition.label_bytes :].copy()).reshape(-1, 3, 32, 32), labels
    )


def read_pickle(path: Path, edition: Edition) -> Pixels:
    """A batch as the Python edition stores it."""
    batch = read_arrays(path)
    images, labels = batch.get("data"), np.asarray(batch.get(edition.label_key))
    if (
        not isinstance(images, np.ndarray)
        or images.dtype != np.uint8
        or images.ndim != 2
        or images.shape[1] != PIXELS
        or not len(images)
    ):
        found = (
            f"{images.dtype} {list(images.shape)}"
            if isinstance(images, np.ndarray)
            else type(images).__name__
        )
        raise wrong_file(path, f"{found} under 'data'", f"uint8 [images, {PIXELS}]")
    if labels.shape != images.shape[:1] or labels.dtype.kind not in "iu":
        found = f"{labels.dtype} {list(labels.shape)} under {edition.label_key!r}"
        raise wrong_file(path, found, f"{len(images)} whole numbers, one for each image")
    return Pixels(
        torch.from_numpy(images.copy()).reshape(-1, 3, 32, 32), _checked(path, labels, edition)
    )


EDITIONS = {"cifar10": Edition(10, 1, "labels"), "cifar100": Edition(100, 2, "fine_labels")}
LAYOUTS = {
    "cifar10": (
        Batches(
            "cifar-10-batches-bin",
            tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
            "test_batch.bin",
            read_binary,
        ),
        Batches(
            "cifar-10-batches-py",
            tuple(f"data_batch_{i}" for i in range(1, 6)),
            "test_batch",
            read_pickle,
        ),
    ),
    "cifar100": (
        Batches("cifar-100-binary", ("train.bin",), "test.bin", read_binary),
        Batches("cifar-100-python", ("train",), "test", read_pickle),
    ),
}


def _checked(path: Path, labels: np.ndarray, edition: Edition) -> Tensor:
    wrong = (labels < 0) | (labels >= edition.classes)
    if wrong.any():
        raise wrong_file(
            path, f"the label {labels[wrong][0]}", f"labels 0 to {edition.classes - 1}"
        )
    return torch.from_numpy(labels.astype(np.int64))


def _find(
    options: StoredImages, dataset: str, layouts: tuple[Batches, ...]
) -> tuple[Batches, list[str]]:
    """The layout with the most training batches, and which of them are there; the binary one where they tie."""
    root = data_folder(options)
    if options.download and not any(_there(root, layout) for layout in layouts):
        first = layouts[0]
        fetch_archive(dataset, root / first.folder, (*first.train, first.test))
    best = max(layouts, key=lambda layout: len(_there(root, layout)))
    if not _there(root, best):
        raise files_missing(
            options,
            [
                root / layout.folder / name
                for layout in layouts
                for name in (layout.train[0], layout.test)
            ],
        )
    return best, _there(root, best)


def _there(root: Path, layout: Batches) -> list[str]:
    folder = root / layout.folder
    return (
        [name for name in layout.train if (folder / name).is_file()]
        if (folder / layout.test).is_file()
        else []
    )


def _account(
    batches: Batches, names: list[str], train: Pixels, test: Pixels
) -> tuple[dict[str, str], list[str]]:
    """What was there, as conventions, and warnings where it is only a part."""
    share = f"{len(names)} of {len(batches.train)}"
    train_text, _ = completeness("training", len(train.images), COMPLETE["training"])
    test_text, warnings = completeness("test", len(test.images), COMPLETE["test"])
    if len(names) < len(batches.train) or len(train.images) < COMPLETE["training"]:
        warnings.insert(0, f"the files hold {share} training batches, {train_text} training images")
    return {
        "training batches": share,
        "training images": train_text,
        "test images": test_text,
    }, warnings


def _animals_or_not(source: Source) -> Source:
    animals = torch.tensor(ANIMALS, device="cpu")
    train, test = (
        Pixels(each.images, torch.isin(each.labels, animals).to(torch.int64))
        for each in (source.train, source.test)
    )
    return source._replace(
        train=train, test=test, classes=2, conventions={**source.conventions, "class 1": "animals"}
    )
