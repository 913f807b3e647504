"""CIFAR-10 and CIFAR-100, from their binary or pickled batches.

A binary record is one label byte (CIFAR-100: coarse, then fine) and 3072 pixels: red, green and
blue planes, each row by row.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypeGuard

import numpy as np
import torch
from torch import Tensor

from penchant_vision.declarations import CifarImages
from penchant_vision.files.locations import (
    CIFAR_LAYOUTS,
    Layout,
    cifar_files,
    cifar_layout,
    data_folder,
    files_missing,
    wrong_file,
)
from penchant_vision.files.mirrors import fetch_archive
from penchant_vision.files.pickled_arrays import read_arrays
from penchant_vision.preparation import Pixels, Source, completeness

COLOURS, SIDE = 3, 32
PIXELS = COLOURS * SIDE * SIDE
WHITE = 255
COMPLETE_TRAIN, COMPLETE_TEST = 50000, 10000


class Edition(NamedTuple):
    """CIFAR-10 or CIFAR-100.

    Attributes:
        classes: How many there are.
        label_bytes: Of a binary record; the last one counts.
        label_key: Name of the labels in a pickle.
    """

    classes: int
    label_bytes: int
    label_key: str


EDITIONS = {
    "cifar10": Edition(classes=10, label_bytes=1, label_key="labels"),
    "cifar100": Edition(classes=100, label_bytes=2, label_key="fine_labels"),
}


def read_cifar(name: str, options: CifarImages) -> Source:
    """The batches of the edition `cifar10` or `cifar100` that are there."""
    edition = EDITIONS[name]
    *train_paths, test_path = _find(name, options)
    layout = cifar_layout(name, options.root)
    read = read_pickle if layout.pickled else read_binary
    batches = [read(path, edition) for path in train_paths]
    train = _joined(batches)
    test = read(test_path, edition)
    # How much of the dataset is there reaches the result.
    conventions, warnings = _account(layout, len(batches), train, test)
    return Source(train, test, edition.classes, WHITE, conventions, warnings)


def _joined(batches: list[Pixels]) -> Pixels:
    images = [batch.images for batch in batches]
    labels = [batch.labels for batch in batches]
    return Pixels(torch.cat(images), torch.cat(labels))


def _find(name: str, options: CifarImages) -> list[Path]:
    """The existing batches, downloaded first where that is requested; the test batch last."""
    paths = cifar_files(name, options.root)
    base = data_folder(options.root)
    # Existing files are never fetched again, even where some are missing.
    if not paths and options.download:
        binary = CIFAR_LAYOUTS[name][0]
        fetch_archive(name, base / binary.folder, (*binary.train, binary.test))
        paths = cifar_files(name, options.root)
    if paths:
        return paths
    # A file of each split is enough to say where they should be.
    expected = []
    for layout in CIFAR_LAYOUTS[name]:
        folder = base / layout.folder
        expected.append(folder / layout.train[0])
        expected.append(folder / layout.test)
    raise files_missing(options.name, expected)


def read_binary(path: Path, edition: Edition) -> Pixels:
    """A batch of fixed-length records."""
    raw = np.fromfile(path, np.uint8)
    length = edition.label_bytes + PIXELS
    if not len(raw) or len(raw) % length:
        raise wrong_file(path, f"{len(raw)} bytes", f"a whole number of records of {length} bytes")
    # The last byte in front of the pixels is the label.
    records = raw.reshape(-1, length)
    labels = records[:, edition.label_bytes - 1]
    images = records[:, edition.label_bytes :]
    return Pixels(_as_images(images), _checked_labels(path, labels, edition))


def read_pickle(path: Path, edition: Edition) -> Pixels:
    """A batch as the Python edition stores it."""
    batch = read_arrays(path)
    # The Python edition keeps rows of pixels under one name and labels under another.
    images = batch.get("data")
    if not _are_images(images):
        kind = type(images).__name__
        if isinstance(images, np.ndarray):
            kind = _kind(images)
        raise wrong_file(path, f"{kind} under 'data'", f"uint8 [images, {PIXELS}]")
    labels = np.asarray(batch.get(edition.label_key))
    whole = labels.dtype.kind in "iu"
    if labels.shape != images.shape[:1] or not whole:
        raise wrong_file(
            path,
            f"{_kind(labels)} under {edition.label_key!r}",
            f"{len(images)} whole numbers, one for each image",
        )
    return Pixels(_as_images(images), _checked_labels(path, labels, edition))


def _kind(values: np.ndarray) -> str:
    """Type and shape of an array, as a message names them."""
    shape = list(values.shape)
    return f"{values.dtype} {shape}"


def _are_images(values: object) -> TypeGuard[np.ndarray]:
    if not isinstance(values, np.ndarray):
        return False
    if values.dtype != np.uint8 or values.ndim != 2:
        return False
    count, pixels = values.shape
    return bool(count > 0 and pixels == PIXELS)


def _as_images(rows: np.ndarray) -> Tensor:
    # A copy: the rows are read-only, or a slice of records.
    pixels = torch.from_numpy(rows.copy())
    return pixels.reshape(-1, COLOURS, SIDE, SIDE)


def _checked_labels(path: Path, labels: np.ndarray, edition: Edition) -> Tensor:
    wrong = (labels < 0) | (labels >= edition.classes)
    if wrong.any():
        raise wrong_file(
            path, f"the label {labels[wrong][0]}", f"labels 0 to {edition.classes - 1}"
        )
    return torch.from_numpy(labels.astype(np.int64))


def _account(
    layout: Layout, batches: int, train: Pixels, test: Pixels
) -> tuple[dict[str, str], list[str]]:
    """What was there, as conventions, and warnings where files are missing."""
    # The message names a missing batch and its images.
    share = f"{batches} of {len(layout.train)}"
    train_text, of_train = completeness("training", len(train.images), COMPLETE_TRAIN)
    test_text, warnings = completeness("test", len(test.images), COMPLETE_TEST)
    if batches < len(layout.train) or of_train:
        warnings.insert(0, f"the files hold {share} training batches, {train_text} training images")
    conventions = {
        "training batches": share,
        "training images": train_text,
        "test images": test_text,
    }
    return conventions, warnings
