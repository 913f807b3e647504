"""Stacked MNIST: three digits as colour channels, from MNIST's IDX files."""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import penchant
import torch
from penchant_numerics.data import Data, Samples
from torch import Generator, Tensor

FOLDERS = ("mnist", "MNIST/raw")
PARTS = {"train": "train", "test": "t10k"}


def load(options: Any, generator: Generator) -> Data:
    """Target of the dataset `stacked-mnist`."""
    seeds = torch.randint(2**63 - 1, (2,), generator=generator, device="cpu").tolist()
    counts = {"train": options.samples, "test": options.test}
    stacked = {}
    for (part, prefix), seed in zip(PARTS.items(), seeds):
        images = read(find(options, f"{prefix}-images-idx3-ubyte"), axes=3)
        digits = read(find(options, f"{prefix}-labels-idx1-ubyte"), axes=1).to(torch.int64)
        if len(images) != len(digits):
            raise penchant.Error(
                f"stacked-mnist: {len(images)} {part} images and {len(digits)} labels, expected as many"
            )
        stacked[part] = stack(
            images, digits, counts[part], torch.Generator(device="cpu").manual_seed(seed)
        )
    conventions = {
        "modes": "digits of the channels read as a number, first channel first",
        "pixels": "0 to 1",
    }
    return Data(stacked["train"], stacked["test"], classes=1000, conventions=conventions)


def stack(images: Tensor, digits: Tensor, count: int, generator: Generator) -> Samples:
    """Images (count, 3, height, width) in [0, 1] of digits drawn with replacement, and their modes."""
    chosen = torch.randint(len(images), (count, 3), generator=generator, device="cpu")
    place = torch.tensor([100, 10, 1], device="cpu")
    return Samples(images[chosen].to(torch.float32) / 255, (digits[chosen] * place).sum(1))


def find(options: Any, name: str) -> Path:
    """A file of MNIST, gzipped or plain, under `root` or PENCHANT_DATA."""
    chosen = options.root or os.environ.get("PENCHANT_DATA")
    if not chosen:
        raise penchant.Error(
            "stacked-mnist: set PENCHANT_DATA or root to the folder that holds the folder of MNIST"
        )
    wanted = [
        Path(chosen).expanduser() / folder / f"{name}{suffix}"
        for folder in FOLDERS
        for suffix in ("", ".gz")
    ]
    for path in wanted:
        if path.is_file():
            return path
    raise penchant.Error(
        f"stacked-mnist: the file {name} is not there; looked for{''.join(f'{chr(10)}  {path}' for path in wanted)}"
    )


def read(path: Path, *, axes: int) -> Tensor:
    """The unsigned bytes of an IDX file: two zeros, type 8, axes, big-endian lengths, values."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise penchant.Error(f"{path} cannot be read: {error}") from error
    start = 4 + 4 * axes
    if len(raw) < start or raw[:4] != bytes((0, 0, 8, axes)):
        raise penchant.Error(
            f"{path}: found the header {raw[:4].hex()}, expected {bytes((0, 0, 8, axes)).hex()} (IDX, unsigned bytes)"
        )
    shape = struct.unpack(f">{axes}I", raw[4:start])
    if len(raw) - start != math.prod(shape):
        raise penchant.Error(
            f"{path}: found {len(raw) - start} values, expected {math.prod(shape)}, as its header says {list(shape)}"
        )
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8, offset=start).reshape(shape)
