"""MNIST and its relatives, from IDX files.

An IDX file is a magic number (two zero bytes, the type of the values, the number of axes), the length of every axis as a
big-endian 32-bit number, and the values.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import torch
from penchant_numerics.data import Data
from torch import Generator

from penchant_vision import StoredImages
from penchant_vision._files import completeness, data_folder, files_missing, wrong_file
from penchant_vision._mirrors import fetch
from penchant_vision._preparation import Pixels, Source, prepare

FOLDERS = {
    "mnist": ("mnist", "MNIST/raw"),
    "fashion-mnist": ("fashion-mnist", "FashionMNIST/raw"),
    "kmnist": ("kmnist", "KMNIST/raw"),
}
NAMES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
COMPLETE = {"train": 60000, "test": 10000}
UNSIGNED_BYTE = 8


def load(options: StoredImages, generator: Generator) -> Data:
    """Target of the datasets `mnist`, `fashion-mnist` and `kmnist`."""
    folder = _find(options)
    parts = {part: _read_part(folder, *names) for part, names in NAMES.items()}
    conventions, warnings = {}, []
    for part, pixels in parts.items():
        word = "training" if part == "train" else part
        conventions[f"{word} images"], notes = completeness(
            word, len(pixels.images), COMPLETE[part]
        )
        warnings += notes
    return prepare(
        options, Source(parts["train"], parts["test"], 10, 255, conventions, warnings), generator
    )


def read(path: Path, axes: int) -> np.ndarray:
    """The values of an IDX file of unsigned bytes with this many axes."""
    raw = _content(path)
    header = struct.pack(">I", UNSIGNED_BYTE << 8 | axes)
    if raw[:4] != header:
        raise wrong_file(
            path,
            f"the magic number {raw[:4].hex()}",
            f"{header.hex()} (IDX, unsigned bytes, {axes} axes)",
        )
    start = 4 + 4 * axes
    if len(raw) < start:
        raise wrong_file(
            path, f"{len(raw)} bytes", f"at least {start} (an IDX header with {axes} axes)"
        )
    shape = struct.unpack(f">{axes}I", raw[4:start])
    if len(raw) - start != math.prod(shape):
        raise wrong_file(
            path,
            f"{len(raw) - start} values",
            f"{math.prod(shape)}, as its header says {list(shape)}",
        )
    return np.frombuffer(bytearray(raw), np.uint8, offset=start).reshape(shape)


def _content(path: Path) -> bytes:
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as stream:
            return stream.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise wrong_file(path, f"a damaged file ({error})", "a whole gzip file") from error


def _find(options: StoredImages) -> Path:
    """The first of the dataset's folders that has all files, each gzipped or plain."""
    folders = [data_folder(options) / folder for folder in FOLDERS[options.name]]
    names = [name for pair in NAMES.values() for name in pair]
    if options.download and not any(_has_all(folder, names) for folder in folders):
        fetch(options.name, folders[0])
    for folder in folders:
        if _has_all(folder, names):
            return folder
    raise files_missing(
        options,
        [
            folder / f"{name}[.gz]"
            for folder in folders
            for name in names
            if _stored(folder, name) is None
        ],
    )


def _has_all(folder: Path, names: list[str]) -> bool:
    return all(_stored(folder, name) is not None for name in names)


def _stored(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _read_part(folder: Path, images_name: str, labels_name: str) -> Pixels:
    images_path, labels_path = _stored(folder, images_name), _stored(folder, labels_name)
    assert (
        images_path is not None and labels_path is not None
    )  # the folder was chosen because it has them
    images, labels = read(images_path, axes=3), read(labels_path, axes=1)
    if images.shape[1:] != (28, 28) or not len(images):
        raise wrong_file(
            images_path, f"{len(images)} images of {list(images.shape[1:])}", "images of [28, 28]"
        )
    if len(labels) != len(images):
        raise wrong_file(
            labels_path,
            f"{len(labels)} labels",
            f"{len(images)}, one for each image of {images_path.name}",
        )
    if labels.max() > 9:
        raise wrong_file(labels_path, f"the label {labels.max()}", "labels 0 to 9")
    return Pixels(torch.from_numpy(images)[:, None], torch.from_numpy(labels).to(torch.int64))
