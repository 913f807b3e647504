"""Targets of the datasets `two-circles` and `linear-and-ring`: features on a few directions, noise on all others."""

from __future__ import annotations

import math
from typing import Any

import penchant
import torch
from penchant_numerics.data import Data, Samples
from torch import Generator, Tensor

HOST = {"device": "cpu", "dtype": torch.float64}


def load_two_circles(options: Any, generator: Generator) -> Data:
    """Two concentric circles in the plane of two directions."""
    directions = orthonormal(options.directions, 2, options.size)

    def draw(count: int, labels: Tensor, stream: Generator) -> Tensor:
        return ring(labels, options.radii, stream)

    return _data(options, directions, draw, draw, generator)


def load_linear_and_ring(options: Any, generator: Generator) -> Data:
    """A linear feature on the first direction, a ring on the plane of the other two; in the test set one may lie."""
    directions = orthonormal(options.directions, 3, options.size)

    def both(count: int, labels: Tensor, stream: Generator) -> Tensor:
        return torch.cat([linear(labels, options.epsilon), ring(labels, options.radii, stream)], 1)

    def tested(count: int, labels: Tensor, stream: Generator) -> Tensor:
        other = torch.randint(
            2, (count,), generator=stream, device="cpu"
        )  # says nothing about the label
        slope, circle = (
            labels if options.tested in ("both", name) else other for name in ("linear", "ring")
        )
        return torch.cat([linear(slope, options.epsilon), ring(circle, options.radii, stream)], 1)

    return _data(options, directions, both, tested, generator)


def linear(labels: Tensor, epsilon: float) -> Tensor:
    """+-epsilon / 2, (samples, 1)."""
    return (epsilon * (labels.to(torch.float64) - 0.5))[:, None]


def ring(labels: Tensor, radii: tuple[float, float], generator: Generator) -> Tensor:
    """Points (samples, 2) at a uniform angle, at the radius of their class."""
    angles = 2 * math.pi * torch.rand(len(labels), generator=generator, **HOST)
    radius = torch.tensor(radii, **HOST)[labels]
    return torch.stack([radius * angles.cos(), radius * angles.sin()], 1)


def _data(options: Any, directions: Tensor, train: Any, test: Any, generator: Generator) -> Data:
    seeds = torch.randint(2**63 - 1, (2,), generator=generator, device="cpu")
    streams = [torch.Generator(device="cpu").manual_seed(int(seed)) for seed in seeds]
    parts = [
        _draw(count, directions, feature, options, stream)
        for count, feature, stream in zip((options.train, options.test), (train, test), streams)
    ]
    conventions = {
        "features": "on the given directions, without noise there",
        "noise": f"N(0, {options.sigma:g}^2) on all other directions",
    }
    return Data(*parts, classes=2, conventions=conventions)


def _draw(
    count: int, directions: Tensor, feature: Any, options: Any, generator: Generator
) -> Samples:
    labels = torch.arange(count, device="cpu") % 2
    labels = labels[torch.randperm(count, generator=generator, device="cpu")]
    rows = options.sigma * torch.randn(count, directions.shape[1], generator=generator, **HOST)
    rows += (feature(count, labels, generator) - rows @ directions.T) @ directions
    return Samples(rows.to(torch.float32).reshape(count, *options.size), labels)


def orthonormal(directions: Any, count: int, size: tuple[int, ...]) -> Tensor:
    """Unit rows (count, D) of the given directions; by default the first coordinates."""
    points = math.prod(size)
    if directions is None:
        return torch.eye(count, points, **HOST)
    rows = torch.as_tensor(directions, **HOST)
    if rows.shape != (count, points):
        raise penchant.Error(
            f"directions must be {count} rows of {points} values, as size is {list(size)}, found shape {list(rows.shape)}"
        )
    lengths = rows.norm(dim=1, keepdim=True)
    if not bool((lengths > 0).all()):
        raise penchant.Error("directions must not be zero")
    rows = rows / lengths
    skew = float((rows @ rows.T - torch.eye(count, **HOST)).abs().max())
    if skew > 1e-5:
        raise penchant.Error(f"directions must be orthogonal, found two with cosine {skew:.3g}")
    return rows
