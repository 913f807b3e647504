"""CelebA: aligned faces from the files of its authors, cut to a square and scaled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import penchant
import torch
from penchant_numerics.data import Data, Samples
from PIL import Image
from torch import Generator, Tensor
from torch.nn import functional

from penchant_vision.declarations import CelebA
from penchant_vision.files.locations import celeba_lists, files_missing, wrong_file

PICTURES = "img_align_celeba"
TRAIN, TEST = "0", "2"  # as list_eval_partition.txt numbers the splits
WHITE = 255
IN_COLOURS = ("RGB", "RGBA")
# What Pillow raises for files that are missing, cut, of another kind or absurdly large.
UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


def load(options: CelebA, generator: Generator) -> Data:
    """Target of the dataset `celeba`. Nothing is sampled: pictures come in their numbers' order."""
    attribute_list, split_list = celeba_lists(options.root)
    missing = [path for path in (attribute_list, split_list) if not path.is_file()]
    if missing:
        raise files_missing(options.name, missing, mirrored=False)
    # Which pictures belong to which split, and what their label is.
    train = _members(split_list, TRAIN)[: options.train]
    test = _members(split_list, TEST)[: options.test]
    labels = _attribute(attribute_list, options.attribute)
    folder = split_list.parent / PICTURES
    return Data(
        train=_samples(folder, train, labels, side=options.resize),
        test=_samples(folder, test, labels, side=options.resize),
        classes=2,
        conventions={
            "label": f"the attribute {options.attribute}",
            "pixels": "0 to 1",
            "cut": "the middle square",
        },
    )


def _members(path: Path, split: str) -> list[str]:
    """Names of the pictures of a split, one `name split` per line."""
    names = []
    for line in _lines(path):
        name, _, number = line.partition(" ")
        if number.strip() == split:
            names.append(name)
    if not names:
        raise wrong_file(path, f"no picture of split {split}", "pictures of splits 0, 1 and 2")
    return names


def _attribute(path: Path, attribute: str) -> dict[str, int]:
    """1 or 0 for every picture: the file has a count, the names, and a row of 1 and -1 each."""
    lines = _lines(path)
    # The second line names the attributes, in the order of the columns.
    names = lines[1].split() if len(lines) > 1 else []
    if attribute not in names:
        known = ", ".join(names) or "none"
        raise penchant.Error(f"celeba: no attribute {attribute!r} in {path}; there are {known}")

    # A row begins with the picture's name.
    column = 1 + names.index(attribute)
    labels = {}
    for line in lines[2:]:
        row = line.split()
        if len(row) > column:
            labels[row[0]] = int(row[column] == "1")
    return labels


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise penchant.Error(f"celeba: {path} cannot be read: {error}") from error


def _samples(
    folder: Path, names: list[str], labels: dict[str, int], *, side: int | None
) -> Samples:
    unlabelled = [name for name in names if name not in labels]
    if unlabelled:
        raise penchant.Error(f"celeba: the list of attributes has no row for {unlabelled[0]}")
    pictures = [picture(folder / name, side=side) for name in names]
    chosen = [labels[name] for name in names]
    return Samples(torch.stack(pictures), torch.tensor(chosen, device="cpu"))


def picture(path: Path, *, side: int | None) -> Tensor:
    """The middle square of a picture, (3, side, side), values from 0 to 1."""
    try:
        with Image.open(path) as image:
            mode = image.mode
            values = np.array(image)  # (height, width, channels)
    except UNREADABLE as error:
        raise penchant.Error(f"celeba: {path} cannot be read: {error}") from error
    if mode not in IN_COLOURS:
        raise wrong_file(path, f"a picture of mode {mode}", "one in colours")
    # Transparency, where there is any, is left out.
    colours = torch.from_numpy(values[..., :3])
    pixels = colours.to(torch.float32) / WHITE
    square = _middle_square(pixels).permute(2, 0, 1)
    if side is None:
        return square
    scaled = functional.interpolate(square[None], (side, side), mode="bilinear", antialias=True)
    return scaled[0].clamp(0, 1)


def _middle_square(pixels: Tensor) -> Tensor:
    height, width = pixels.shape[:2]
    edge = min(height, width)
    # The longer side is cut at both ends.
    top = (height - edge) // 2
    left = (width - edge) // 2
    rows = slice(top, top + edge)
    columns = slice(left, left + edge)
    return pixels[rows, columns]
