"""Curvature of the loss along directions, by central differences: two forward passes each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Along(NamedTuple):
    """The slope and the curvature along a direction, of each sample (n,)."""

    slopes: Tensor
    curvatures: Tensor


def curvature_along(losses: Callable[[float], Tensor], here: Tensor, distance: float) -> Along:
    """Central differences at a distance on both sides.

    Args:
        losses: Losses (n,) at a distance along the direction.
        here: Losses at 0.
        distance: How far to go.

    Returns:
        Slopes and curvatures, exact for a quadratic loss.

    >>> here = torch.ones(1, device="cpu", dtype=torch.float64)
    >>> curvature_along(lambda t: 1 + 2 * t + 1.5 * t**2 * here, here, 0.5).curvatures.item()
    3.0
    """
    ahead, behind = losses(distance), losses(-distance)
    slopes = (ahead - behind) / (2 * distance)
    curvatures = (ahead + behind - 2 * here) / distance**2
    return Along(slopes, curvatures)


def random_units(count: int, like: Tensor, *, generator: torch.Generator) -> Tensor:
    """Rows (count, size) of random unit vectors.

    Args:
        count: How many.
        like: A vector (size,) whose device and precision they have.
        generator: On the CPU.
    """
    rows = torch.randn((count, len(like)), generator=generator, device="cpu", dtype=torch.float64)
    units: Tensor = rows / rows.norm(dim=1, keepdim=True)
    return units.to(like)
