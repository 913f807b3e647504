"""Clouds of inputs with the length and the spread of others, but not on their manifold.

How hard white noise is to learn depends on how far inputs are from the origin (their mean square
norm) and from each other (their total variance). A cloud that is compared with another has both of
it, exactly: it differs only in shape.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor


def matched_plane(plane: Tensor, like: Tensor, *, features: int) -> Tensor:
    """Points of a plane, moved and stretched within it.

    Args:
        plane: Points (samples, D), zero but for their first `features` values.
        like: Points (samples, D), whose mean has the length and whose total variance is the one
            that the plane is given; with both it has their mean square norm.
        features: Dimensions of the plane.

    Returns:
        Points (samples, D) of the same plane.
    """
    centred = plane - plane.mean(0)
    length = like.mean(0).norm()
    ratio = _spread(like) / _spread(plane)
    # the mean lies on the diagonal of the plane
    mean = torch.zeros_like(plane[0])
    mean[:features] = length / features**0.5
    return mean + ratio * centred


def normal_cloud(like: Tensor, *, generator: Generator) -> Tensor:
    """Normal points (samples, D) with the mean and the covariance of others.

    Args:
        like: Points (samples, D).
        generator: A generator on the CPU.

    Returns:
        As many points; their own mean square norm and total variance are those of `like`.
    """
    mean = like.mean(0)
    centred = (like - mean).double()
    covariance = centred.T @ centred / len(like)
    values, vectors = torch.linalg.eigh(covariance)
    root = vectors * values.clamp(min=0).sqrt() @ vectors.T
    sampled = torch.randn(like.shape, generator=generator, device="cpu", dtype=torch.float64)
    cloud = (sampled.to(like.device) @ root).to(like.dtype)
    away = cloud - cloud.mean(0)
    matched: Tensor = mean + away * (_spread(like) / _spread(away))
    return matched


def _spread(points: Tensor) -> Tensor:
    """The root of the total variance of points (samples, D)."""
    return points.double().var(0, correction=0).sum().sqrt().to(points.dtype)
