"""Invertible maps of numbers: under one for each variable, information stays what it was.

Reference: Czyż, Grabowski, Vogt, Beerenwinkel, Marx, "Beyond Normal: On the Evaluation of Mutual
Information Estimators", NeurIPS 2023.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

SPACING = 2.0  # standard deviations from either bump of `bimodal` to the middle


def half_cube(values: Tensor) -> Tensor:
    """Longer tails: sign(x) |x|^(3/2)."""
    return values * values.abs().sqrt()


def wiggly_first(values: Tensor) -> Tensor:
    """A line with waves, whose slope is at least 0.16."""
    waves = 0.4 * values.sin() + 0.2 * (1.7 * values + 1).sin() + 0.03 * (3.3 * values - 2.5).sin()
    return values + waves


def wiggly_second(values: Tensor) -> Tensor:
    """Another line with waves, whose slope is at least 0.53."""
    slow = -0.4 * (0.4 * values).sin()
    fast = 0.17 * (1.3 * values + 3.5).sin() + 0.02 * (4.3 * values - 2.5).sin()
    return values + slow + fast


def bimodal(values: Tensor) -> Tensor:
    """Standard normal numbers as draws of two bumps: the quantile of the mixture."""
    reach = SPACING + 8
    grid = np.linspace(-reach, reach, 20001)
    bumps = 0.5 * (_normal_cdf(grid - SPACING) + _normal_cdf(grid + SPACING))
    levels = _normal_cdf(values.double().numpy())
    mapped = np.interp(levels, bumps, grid)
    return torch.from_numpy(mapped).to(values.dtype)


def _normal_cdf(values: np.ndarray) -> np.ndarray:
    levels: np.ndarray = torch.special.ndtr(torch.from_numpy(values)).numpy()
    return levels
