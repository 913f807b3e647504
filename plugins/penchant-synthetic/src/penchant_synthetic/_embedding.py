"""Curves in inputs of any shape: coordinates of a few dimensions are placed isometrically among the input values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import penchant
import torch
from torch import Generator, Tensor

from penchant_synthetic._draws import normal_rows


def embed(
    coordinates: Tensor, size: Sequence[int], embedding: str, generator: Generator
) -> tuple[Tensor, str]:
    """Inputs (points, *size) at coordinates (points, m), and how they were placed; distances between points are kept.

    Where the input has as many values as there are coordinates, they are the input; else they are its first values, or
    coordinates in a random plane of the seed.
    """
    dimensions, values = coordinates.shape[1], math.prod(size)
    if values < dimensions:
        raise penchant.Error(
            f"size must have at least {dimensions} input values, found {list(size)}"
        )
    if values == dimensions:
        return coordinates.reshape(-1, *size), "the coordinates are the input"
    if embedding == "coordinates":
        rest = torch.zeros(
            len(coordinates), values - dimensions, device="cpu", dtype=coordinates.dtype
        )
        return torch.cat([coordinates, rest], dim=1).reshape(
            -1, *size
        ), f"the first {dimensions} of {values} input values"
    axes = normal_rows(dimensions, values, generator).to(coordinates.dtype)
    orthonormal = torch.linalg.qr(axes.T).Q.T  # (m, values)
    return (coordinates @ orthonormal).reshape(
        -1, *size
    ), f"{dimensions} random orthonormal directions of the seed, of {values}"
