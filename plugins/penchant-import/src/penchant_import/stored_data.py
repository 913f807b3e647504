"""The code behind `file`: arrays of a file .npz, pictures of a folder of classes."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penchant.errors import Error

from penchant_import.columns import INPUTS, LABELS, input_and_label
from penchant_import.declarations import FileDataset, ImportedDataset
from penchant_import.imported import load as load_imported

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif")
SPLITS = ("train", "test")


def load(options: FileDataset, generator: Any) -> Any:
    """Target of the dataset `file`."""
    path = Path(options.path)
    if path.is_dir():
        source = _pictures(path)
    elif path.is_file():
        source = _arrays(path)
    else:
        raise Error(f"there is no file or folder {options.path!r}")
    return load_imported(ImportedDataset(factory=source, classes=options.classes), generator)


def _arrays(path: Path) -> Any:
    """Train and test pairs, or one pair, of the arrays in a file."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as stored:
            if not hasattr(stored, "files"):
                raise Error(f"{path} holds one array, expected inputs and labels in a file .npz")
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise Error(f"{path} cannot be read as a file .npz of arrays: {error}") from error
    splits = {split: _of_split(arrays, split) for split in SPLITS}
    if splits["train"]:
        pairs = [_pair(columns, path) for columns in splits.values() if columns]
        return pairs[0] if len(pairs) == 1 else tuple(pairs)
    return _pair(arrays, path)


def _of_split(arrays: Mapping[str, Any], split: str) -> dict[str, Any]:
    """The arrays of a split: x_train, or train_x."""
    columns = {}
    for name, array in arrays.items():
        words = name.lower().split("_")
        if split in words:
            words.remove(split)
            columns["_".join(words)] = array
    return columns


def _pair(columns: Mapping[str, Any], path: Path) -> tuple[Any, Any]:
    import torch

    columns = {name.lower(): array for name, array in columns.items()}
    if not set(LABELS) & columns.keys() and set(INPUTS) & columns.keys():
        names = ", ".join(columns)
        raise Error(f"{path} has no labels, found {names}: add an array called labels or y")
    try:
        (inputs, *_), labels = input_and_label(columns)
    except Error as error:
        raise Error(f"{path}: {error}") from None
    first, second = columns[inputs], columns[labels]
    return torch.as_tensor(first), second if second.dtype.kind in "US" else torch.as_tensor(second)


def _pictures(folder: Path) -> Any:
    """Pictures with the names of their folders as labels; in splits where there are two."""
    splits = [folder / split for split in SPLITS if (folder / split).is_dir()]
    if len(splits) == len(SPLITS):
        return tuple(_classes(each) for each in splits)
    return _classes(folder)


def _classes(folder: Path) -> tuple[Any, list[str]]:
    import torch

    from penchant_import.pixels import read_input

    try:
        from PIL import Image
    except ImportError:
        raise Error("pictures need pillow, which is not installed: pip install pillow") from None
    pixels: list[Any] = []
    labels: list[str] = []
    for inside in sorted(path for path in folder.iterdir() if path.is_dir()):
        for path in sorted(inside.rglob("*")):
            if path.suffix.lower() in PICTURES:
                with Image.open(path) as picture:
                    pixels.append(read_input(picture.copy()))
                labels.append(inside.name)
    if not pixels:
        expected = "a folder of pictures for each class, such as data/cat/1.png"
        raise Error(f"{folder} has no pictures, expected {expected}")
    shapes = {tuple(each.shape) for each in pixels}
    if len(shapes) > 1:
        listed = " and ".join(" x ".join(map(str, shape)) for shape in sorted(shapes)[:2])
        raise Error(f"pictures in {folder} have several sizes, such as {listed}: resize them")
    return torch.stack(pixels), labels
