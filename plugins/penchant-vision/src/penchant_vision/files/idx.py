"""MNIST and its relatives, from IDX files.

An IDX file is a magic number (two zero bytes, the type of the values, the number of axes), the
length of every axis as a big-endian 32-bit number, and the values. Nothing is allocated for what a
header promises: a file is read only as far as its header says, and as far as there are values.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from penchant_vision.files.locations import (
    IDX_NAMES,
    files_missing,
    idx_files,
    idx_folders,
    stored,
    wrong_file,
)
from penchant_vision.files.mirrors import fetch
from penchant_vision.preparation import Pixels

UNSIGNED_BYTE = 8
SIDE = 28
LARGEST = 1_000_000  # samples of the largest file that is read; its relatives have up to 814255
PIECE = 1 << 20  # bytes


class Splits(NamedTuple):
    """What the four files of a dataset hold."""

    train: Pixels
    test: Pixels


def read_splits(dataset: str, root: str | None, *, download: bool, requested_by: str) -> Splits:
    """Training and test digits (or whatever the dataset shows).

    Args:
        dataset: Whose files: mnist, fashion-mnist or kmnist.
        root: The option of that name.
        download: Fetch them first if they are not there.
        requested_by: The dataset that a message names.
    """
    # What is there is never fetched again.
    paths = idx_files(dataset, root)
    if not paths and download:
        fetch(dataset, idx_folders(dataset, root)[0])
        paths = idx_files(dataset, root)
    if not paths:
        raise files_missing(requested_by, _missing(dataset, root))
    train_images, train_labels, test_images, test_labels = paths
    return Splits(
        train=_read_split(train_images, train_labels), test=_read_split(test_images, test_labels)
    )


def _missing(dataset: str, root: str | None) -> list[Path]:
    required = []
    for folder in idx_folders(dataset, root):
        for name in IDX_NAMES:
            if stored(folder, name) is None:
                required.append(folder / f"{name}[.gz]")
    return required


def _read_split(images_path: Path, labels_path: Path) -> Pixels:
    # Two files belong together, image by image.
    images = read(images_path, item=(SIDE, SIDE))
    labels = read(labels_path)
    if len(labels) != len(images):
        raise wrong_file(
            labels_path,
            f"{len(labels)} labels",
            f"{len(images)}, one for each image of {images_path.name}",
        )
    if labels.max() > 9:
        raise wrong_file(labels_path, f"the label {labels.max()}", "labels 0 to 9")
    grey = torch.from_numpy(images)[:, None]  # one channel
    classes = torch.from_numpy(labels).to(torch.int64)
    return Pixels(grey, classes)


def read(path: Path, *, item: tuple[int, ...] = ()) -> np.ndarray:
    """The values of an IDX file of unsigned bytes: samples of this shape, one after another."""
    packed = path.suffix == ".gz"
    try:
        with gzip.open(path) if packed else path.open("rb") as stream:
            shape = _read_shape(path, stream, item)
            values = _read_values(path, stream, shape)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        actual = f"a damaged file ({error})"
        raise wrong_file(path, actual, "a whole gzip file") from error
    flat = np.frombuffer(values, np.uint8)
    return flat.reshape(shape)


def _read_shape(
    path: Path, stream: gzip.GzipFile | BufferedReader, item: tuple[int, ...]
) -> tuple[int, ...]:
    """The lengths of the axes; a file of another kind is refused before its values are read."""
    axes = 1 + len(item)
    length = 4 + 4 * axes
    expected = struct.pack(">I", UNSIGNED_BYTE << 8 | axes)
    header = stream.read(length)
    if header[:4] != expected:
        raise wrong_file(
            path,
            f"the magic number {header[:4].hex()}",
            f"{expected.hex()} (IDX, unsigned bytes, {axes} axes)",
        )
    if len(header) < length:
        raise wrong_file(
            path, f"{len(header)} bytes", f"at least {length} (an IDX header with {axes} axes)"
        )
    # Behind the magic number stand the lengths of the axes.
    count, *shape = struct.unpack(f">{axes}I", header[4:])
    if tuple(shape) != item or not count:
        what = f"{count} images of {shape}" if item else f"{count} labels"
        required = f"images of {list(item)}" if item else "at least one"
        raise wrong_file(path, what, required)
    # A bomb may keep its promise.
    if count > LARGEST:
        raise wrong_file(path, f"{count} samples in its header", f"at most {LARGEST}")
    return (count, *shape)


def _read_values(
    path: Path, stream: gzip.GzipFile | BufferedReader, shape: tuple[int, ...]
) -> bytearray:
    """As many values as the header promises, piece by piece: memory grows with the data only."""
    promised = math.prod(shape)
    values = bytearray()
    # Read one value more, so that the end of the file is reached and checked.
    while piece := stream.read(min(PIECE, promised + 1 - len(values))):
        values += piece
    if len(values) != promised:
        counted = f"more than {promised}" if len(values) > promised else f"{len(values)}"
        raise wrong_file(path, f"{counted} values", f"{promised}, as its header says {list(shape)}")
    return values
