"""CelebA: aligned faces from the files of its authors, cut to a square and scaled."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import penchant
import torch
from penchant_numerics.data import Data, Samples
from torch import Generator, Tensor
from torch.nn import functional

FOLDER, PICTURES = "celeba", "img_align_celeba"
PARTS = {"train": "0", "test": "2"}  # as list_eval_partition.txt numbers them


def load(options: Any, generator: Generator) -> Data:
    """Target of the dataset `celeba`. Nothing is drawn: images come in the order of their numbers."""
    chosen = options.root or os.environ.get("PENCHANT_DATA")
    if not chosen:
        raise penchant.Error(
            "celeba: set PENCHANT_DATA or root to the folder that holds the folder celeba"
        )
    folder = Path(chosen).expanduser() / FOLDER
    parts = dict(line.split()[:2] for line in _lines(folder / "list_eval_partition.txt"))
    attributes = _attributes(folder / "list_attr_celeba.txt", options.attribute)
    counts = {"train": options.samples, "test": options.test}
    found = {
        part: _samples(
            folder,
            [n for n in parts if parts[n] == PARTS[part]][: counts[part]],
            attributes,
            options,
        )
        for part in PARTS
    }
    conventions = {
        "label": f"the attribute {options.attribute}",
        "pixels": "0 to 1",
        "cut": "the middle square",
    }
    return Data(found["train"], found["test"], classes=2, conventions=conventions)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise penchant.Error(f"celeba: {path} cannot be read: {error.strerror}") from error


def _attributes(path: Path, name: str) -> dict[str, int]:
    """1 or 0 of one attribute for every picture; the file has a count, the names, and a row of 1 and -1 a picture."""
    lines = _lines(path)
    names = lines[1].split() if len(lines) > 1 else []
    if name not in names:
        raise penchant.Error(
            f"celeba: no attribute {name!r} in {path}; there are {', '.join(names) or 'none'}"
        )
    place = 1 + names.index(name)
    return {row[0]: int(row[place] == "1") for row in (line.split() for line in lines[2:]) if row}


def _samples(folder: Path, names: list[str], attributes: dict[str, int], options: Any) -> Samples:
    if not names:
        raise penchant.Error(
            f"celeba: {folder / 'list_eval_partition.txt'} lists no picture for one of the parts train and test"
        )
    inputs = torch.stack([picture(folder / PICTURES / name, options.side) for name in names])
    return Samples(inputs, torch.tensor([attributes[name] for name in names], device="cpu"))


def picture(path: Path, side: int) -> Tensor:
    """The middle square of a picture, (3, side, side), values from 0 to 1."""
    from matplotlib.image import imread

    try:
        values = torch.from_numpy(imread(path).copy())
    except (OSError, SyntaxError) as error:  # a broken PNG is a SyntaxError
        raise penchant.Error(f"celeba: {path} cannot be read: {error}") from error
    pixels = (
        values.to(torch.float32) / 255 if values.dtype == torch.uint8 else values.to(torch.float32)
    )
    if pixels.ndim != 3:
        raise penchant.Error(
            f"celeba: {path} has the shape {list(pixels.shape)}, expected a picture in colours"
        )
    edge = min(pixels.shape[:2])
    top, left = ((length - edge) // 2 for length in pixels.shape[:2])
    square = pixels[top : top + edge, left : left + edge, :3].permute(2, 0, 1)[None]
    return functional.interpolate(square, (side, side), mode="bilinear", antialias=True)[0].clamp(
        0, 1
    )
