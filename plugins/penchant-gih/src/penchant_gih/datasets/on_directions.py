"""Samples whose features lie on a few directions, with normal noise on all others."""

import math
from collections.abc import Callable
from typing import Any

import penchant
import torch
from penchant_numerics.data import Data, Samples, streams
from penchant_numerics.device import HOST
from torch import Generator, Tensor

from penchant_gih.declarations.datasets import OnDirections

LARGEST_COSINE = 1e-5  # of two directions that count as orthogonal

# Coordinates (samples, directions) of samples with these labels.
Feature = Callable[[Tensor, Generator], Tensor]


def make_data(
    options: OnDirections,
    directions: Tensor,
    generator: Generator,
    *,
    train: Feature,
    test: Feature,
) -> Data:
    """Balanced train and test samples, each from a stream of its own.

    Args:
        options: What both datasets share.
        directions: Orthonormal rows (features, D).
        generator: Gives the streams.
        train: Coordinates of training samples along the directions.
        test: The same of test samples.
    """
    # Train and test samples do not depend on how many the other has.
    first, second = streams(generator, 2)
    train_samples = _draw(options.train, directions, train, options, first)
    test_samples = _draw(options.test, directions, test, options, second)
    conventions = {
        "features": "on the given directions, without noise there",
        "noise": f"N(0, {options.noise_std:g}^2) on all other directions",
    }
    return Data(train_samples, test_samples, classes=2, conventions=conventions)


def _draw(
    count: int, directions: Tensor, feature: Feature, options: OnDirections, generator: Generator
) -> Samples:
    # As many of one class as of the other, in random order.
    labels = torch.arange(count, device="cpu") % 2
    order = torch.randperm(count, generator=generator, device="cpu")
    labels = labels[order]
    size = directions.shape[1]
    rows = options.noise_std * torch.randn(count, size, generator=generator, **HOST)
    # The noise along the directions is replaced by the features.
    coordinates = feature(labels, generator)
    rows += (coordinates - rows @ directions.T) @ directions
    inputs = rows.to(torch.float32).reshape(count, *options.input_shape)
    return Samples(inputs, labels)


def ring(labels: Tensor, radii: tuple[float, float], generator: Generator) -> Tensor:
    """Points (samples, 2) at a uniform angle, at the radius of their class."""
    turns = torch.rand(len(labels), generator=generator, **HOST)
    angles = 2 * math.pi * turns
    # Each point at the radius of its class.
    radius = torch.tensor(radii, **HOST)[labels]
    first = radius * angles.cos()
    second = radius * angles.sin()
    return torch.stack([first, second], 1)


def orthonormal(directions: Any, count: int, input_shape: tuple[int, ...]) -> Tensor:
    """Unit rows (count, D) of the given directions; by default the first coordinates."""
    size = math.prod(input_shape)
    if directions is None:
        return torch.eye(count, size, **HOST)
    rows = torch.as_tensor(directions, **HOST)
    if rows.shape != (count, size):
        expected = f"{count} rows of {size} values, as input_shape is {list(input_shape)}"
        shape = list(rows.shape)
        raise penchant.Error(f"directions must be {expected}, found an array of shape {shape}")
    # Only where the rows point matters.
    lengths: Tensor = rows.norm(dim=1, keepdim=True)
    positive = (lengths > 0).all()
    if not bool(positive):
        raise penchant.Error("directions must not be zero")
    rows = rows / lengths
    # What two of them share would be counted twice.
    cosines = rows @ rows.T - torch.eye(count, **HOST)
    skew = float(cosines.abs().max())
    if skew > LARGEST_COSINE:
        raise penchant.Error(f"directions must be orthogonal, found two with cosine {skew:.3g}")
    return rows
