"""A power law fitted to the tail of a spectrum, and what the same fit says of a semicircle."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from penchant_numerics.spectral_density import Quadrature
from torch import Tensor

BINS = 12


class PowerLaw(NamedTuple):
    """log density = slope * log |eigenvalue| + intercept, through the bins that are not empty."""

    slope: float
    intercept: float
    fit: float  # R squared
    places: Tensor  # (k,), log |eigenvalue| in the middle of a bin
    density: Tensor  # (k,), of |eigenvalue|


def power_law(measure: Quadrature, *, low: float, high: float) -> PowerLaw | None:
    """A line through the density of |eigenvalue|, both on log axes, from `low` to `high` times the largest.

    The density is the mass in bins of equal width on the log axis, mean over start vectors. None with fewer than three bins filled.

    >>> from penchant_numerics.spectral_density import exact_quadrature
    >>> pareto = torch.arange(1, 20001, device="cpu").div(20000.0).rsqrt()      # density ~ |eigenvalue|^-3
    >>> round(power_law(exact_quadrature(pareto), low=0.01, high=0.5).slope, 1)
    -3.0
    """
    largest = max(float(nodes.abs().max()) for nodes in measure.nodes)
    if largest == 0:
        return None
    edges = torch.linspace(
        math.log(low * largest),
        math.log(high * largest),
        BINS + 1,
        device="cpu",
        dtype=torch.float64,
    )
    mass = torch.zeros(BINS, device="cpu", dtype=torch.float64)
    for nodes, weights in zip(measure.nodes, measure.weights):
        bins = torch.bucketize(nodes.abs().clamp(min=1e-300).log(), edges) - 1
        inside = (bins >= 0) & (bins < BINS)
        mass.index_add_(0, bins[inside], weights[inside] / len(measure.nodes))
    density = mass / edges.exp().diff()
    filled = density > 0
    if int(filled.sum()) < 3:
        return None
    places = ((edges[1:] + edges[:-1]) / 2)[filled]
    return _line(places, density[filled])


def slope_stderr(measure: Quadrature, *, low: float, high: float) -> float | None:
    """Standard error of the slope over start vectors: each is left out once; none with fewer than three."""
    count = len(measure.nodes)
    slopes = []
    for number in range(count if count > 2 else 0):
        kept = [each for each in range(count) if each != number]
        parts = {
            name: tuple(getattr(measure, name)[each] for each in kept)
            for name in ("nodes", "weights", "residuals")
        }
        again = power_law(replace(measure, **parts), low=low, high=high)
        if again is None:
            return None
        slopes.append(again.slope)
    if not slopes:
        return None
    spread = torch.tensor(slopes, device="cpu", dtype=torch.float64)
    return float(((count - 1) / count * (spread - spread.mean()).square().sum()).sqrt())


def semicircle_slope(*, low: float, high: float, points: int = 256) -> float:
    """The slope that a semicircle, sqrt(1 - x^2), has in the same window: hardly any.

    >>> round(semicircle_slope(low=0.01, high=0.1), 3)
    -0.002
    """
    places = torch.linspace(
        math.log(low), math.log(min(high, 0.999)), points, device="cpu", dtype=torch.float64
    )
    return _line(places, (1 - places.exp().square()).sqrt()).slope


def _line(x: Tensor, density: Tensor) -> PowerLaw:
    y = density.log()
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())
    intercept = float(y.mean()) - slope * float(x.mean())
    spread = float((y - y.mean()).square().sum())
    fit = 1 - float((y - slope * x - intercept).square().sum()) / spread if spread > 0 else 1.0
    return PowerLaw(slope, intercept, fit, x, density)
