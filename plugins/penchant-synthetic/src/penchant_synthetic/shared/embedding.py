"""Curves in inputs of any shape: a few coordinates are embedded isometrically in the values."""

import math
from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from penchant_synthetic.shared.extendable_draws import normal_rows


def embed(
    coordinates: Tensor, shape: Sequence[int], embedding: str, generator: Generator
) -> tuple[Tensor, str]:
    """Inputs at coordinates; distances between points are kept.

    Args:
        coordinates: (points, m), at most as many as the input has values.
        shape: Shape of one input.
        embedding: `coordinates`: they are its first values; `random`: coordinates in a random plane
            of the seed. Without effect where the input has just m values.
        generator: Draws the plane.

    Returns:
        Inputs (points, *shape), and how they were embedded.
    """
    dimensions = coordinates.shape[1]
    values = math.prod(shape)
    if values == dimensions:
        inputs, convention = coordinates, "the coordinates are the input"
    elif embedding == "coordinates":
        inputs = _beside_zeros(coordinates, values)
        convention = f"the first {dimensions} of {values} input values"
    else:
        inputs = _in_a_random_plane(coordinates, values, generator)
        convention = f"{dimensions} random orthonormal directions of the seed, of {values}"
    return inputs.reshape(-1, *shape), convention


def _beside_zeros(coordinates: Tensor, values: int) -> Tensor:
    count, dimensions = coordinates.shape
    zeros = torch.zeros(count, values - dimensions, device="cpu", dtype=coordinates.dtype)
    return torch.cat([coordinates, zeros], dim=1)


def _in_a_random_plane(coordinates: Tensor, values: int, generator: Generator) -> Tensor:
    dimensions = coordinates.shape[1]
    normal = normal_rows(dimensions, values, generator)
    # As many orthonormal directions of the input as there are coordinates, (values, m).
    directions, _ = torch.linalg.qr(normal.T.to(coordinates.dtype))
    embedded: Tensor = coordinates @ directions.T
    return embedded
