"""Numbers of the gallery that are computed from the arrays of a result."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import torch
from penchant import Quantity, Result
from penchant_numerics.statistics import rank_correlation

ON_CURVE, ELSEWHERE = 0.02, 0.05  # distances from the nearest sample, in sides of the plane
ZERO = 1e-9  # of the largest eigenvalue
PEAK = 5.0  # widths of a bump: half the width of the peak at zero


def derived(result: Result, other: Result | None = None) -> dict[str, Quantity]:
    """Further quantities of a result, by the probe that made it.

    Args:
        result: What a probe measured.
        other: The same of another seed, for controls that exchange a part of the two.
    """
    probe, arrays = result.record["probe"]["name"], result.arrays
    if probe == "manifold-accuracy" and "plane" in arrays:
        return plane_agreement(arrays)
    if probe == "logistic-theory":
        return {**multiplicities(arrays["spectrum"]), **sweep_correlation(arrays)}
    if probe == "hessian-spectrum" and "density-undeflated" in arrays:
        foreign = None if other is None else other.arrays["top-eigenvalues"]
        return deflation(arrays, result.record["probe"]["options"], foreign)
    if probe == "hessian-spectrum" and "tail-window" in arrays:
        return tail_symmetry(arrays)
    if probe == "layer-structure":
        return cross_knockout(arrays)
    return {}


def plane_agreement(arrays: dict[str, np.ndarray]) -> dict[str, Quantity]:
    """How often two networks give a point of the plane the same class: on the curve, elsewhere.

    Both are means over pairs of networks. A point is on the curve if it is nearer to a training
    sample than `ON_CURVE`, and elsewhere if it is further from all of them than `ELSEWHERE`.
    """
    classes = arrays["plane"] > 0
    if len(classes) < 2:
        return {}
    axis = arrays["plane-axis"]
    columns, rows = np.meshgrid(axis, axis)
    points = np.stack([columns, rows], axis=-1).reshape(-1, 1, 2)
    nearest = np.linalg.norm(points - arrays["plane-points"], axis=-1).min(axis=1)
    away = nearest.reshape(columns.shape) / (axis[-1] - axis[0])
    pairs = itertools.combinations(classes, 2)
    same = np.mean([one == other for one, other in pairs], axis=0)
    return {
        "agreement-on-curve": Quantity(float(same[away < ON_CURVE].mean()), null=0.5),
        "agreement-elsewhere": Quantity(float(same[away > ELSEWHERE].mean()), null=0.5),
    }


def multiplicities(spectrum: np.ndarray) -> dict[str, Quantity]:
    """How many eigenvalues lie before, between and after the three largest relative gaps.

    >>> found = multiplicities(np.array([8.0, 7.9, 4.0, 3.9, 3.8, 2.0, 0.0]))
    >>> [int(each.value) for each in found.values()]
    [2, 3, 1]
    """
    floored = np.maximum(spectrum, ZERO * spectrum[0])
    gaps = floored[:-1] / floored[1:]
    ends = np.sort(np.argsort(gaps)[-3:]) + 1
    counts = np.diff(ends, prepend=0)
    names = ("counted-outliers", "counted-mini-bulk", "counted-bulk")
    return {name: Quantity(float(each), exact=True) for name, each in zip(names, counts)}


def sweep_correlation(arrays: dict[str, np.ndarray]) -> dict[str, Quantity]:
    """Rank correlation of the test error with the ratio of outliers to bulk, over mixtures.

    It is 0 where all errors are equal: a ratio does not predict what does not vary.
    """
    ratios, errors = arrays["sweep-ratio"], arrays["sweep-test-error"]
    if len(ratios) < 3:
        return {}
    if np.ptp(errors) == 0:
        return {"ratio-error-correlation": Quantity(0.0, exact=True, null=0.0, p=1.0)}
    generator = torch.Generator("cpu").manual_seed(0)
    found = rank_correlation(ratios, errors, generator=generator)
    return {"ratio-error-correlation": Quantity(**found.fields(), over="mixtures")}


def deflation(
    arrays: dict[str, np.ndarray], options: dict[str, Any], foreign: np.ndarray | None = None
) -> dict[str, Quantity]:
    """What the density without deflation shows of outliers and bulk, beside that with deflation.

    An outlier is matched if the density without deflation has a maximum of its own within one
    width of a bump. What chance matches: eigenvalues that are moved half-way to the next larger
    one (`outliers-displaced`). The eigenvalues of another network (`foreign`) are matched and
    displaced in the same way (`foreign-matched`, `foreign-displaced`). The width of a bulk is that
    of its peak at half its height. The outer share is the share of eigenvalues beyond the peak at
    zero, `PEAK` widths of a bump.
    """
    grid, density = arrays["density-grid"], arrays["density-undeflated"]
    steps, kappa = options["lanczos_steps"], options["kappa"]
    bump = (grid[-1] - grid[0]) / ((steps - 1) * math.sqrt(8 * math.log(kappa)))
    eigenvalues = arrays["top-eigenvalues"]
    narrow = width_at_half(arrays["bulk-grid"], arrays["bulk-density-hessian"])
    wide = width_at_half(grid, density)
    outer = grid > PEAK * bump
    numbers = {}
    for name, positions in {"outliers": eigenvalues, "foreign": foreign}.items():
        if positions is not None:
            numbers[f"{name}-matched"] = matched(positions, grid, density, bump)
            numbers[f"{name}-displaced"] = matched(half_way(positions), grid, density, bump)
    numbers |= {
        "bulk-width": narrow,
        "bulk-width-undeflated": wide,
        "bulk-width-ratio": narrow / wide,
        "outer-share": arrays["density-hessian"][outer].sum() * (grid[1] - grid[0]),
        "outer-share-undeflated": density[outer].sum() * (grid[1] - grid[0]),
        "largest-residual": (arrays["top-residuals"] / eigenvalues).max(),
    }
    return {name: Quantity(float(value), exact=True) for name, value in numbers.items()}


def half_way(eigenvalues: np.ndarray) -> np.ndarray:
    """Positions half-way to the next larger eigenvalue; the first is moved as far as the second.

    >>> half_way(np.array([9.0, 6.0, 4.0]))
    array([10.5,  7.5,  5. ])
    """
    larger = np.append(2 * eigenvalues[0] - eigenvalues[1], eigenvalues[:-1])
    return (eigenvalues + larger) / 2


def matched(positions: np.ndarray, grid: np.ndarray, density: np.ndarray, within: float) -> int:
    """How many positions have a maximum of a density near them, each one of its own.

    >>> grid = np.linspace(-1, 1, 201)
    >>> density = np.exp(-0.5 * ((grid - 0.5) / 0.05) ** 2)
    >>> matched(np.array([0.51, 0.49, -0.5]), grid, density, 0.1)
    1
    """
    inner = density[1:-1]
    maxima = list(grid[1:-1][(inner > density[:-2]) & (inner > density[2:])])
    count = 0
    for position in positions:
        nearest = min(maxima, key=lambda each: abs(each - position), default=math.inf)
        if abs(nearest - position) <= within:
            count += 1
            maxima.remove(nearest)
    return count


def tail_symmetry(arrays: dict[str, np.ndarray]) -> dict[str, Quantity]:
    """Positive over negative eigenvalues of E in the window of its power law.

    >>> densities = {"log-density-positive": np.ones(4), "log-density-negative": np.full(4, 2.0)}
    >>> window = {"log-grid": np.arange(4.0), "tail-window": np.exp([0.5, 2.5])}
    >>> tail_symmetry({**densities, **window})["tail-symmetry"].value
    0.5
    """
    low, high = np.log(arrays["tail-window"])
    inside = (arrays["log-grid"] >= low) & (arrays["log-grid"] <= high)
    positive, negative = (arrays[f"log-density-{sign}"] for sign in ("positive", "negative"))
    ratio = positive[inside].sum() / negative[inside].sum()
    return {"tail-symmetry": Quantity(float(ratio), exact=True)}


def cross_knockout(arrays: dict[str, np.ndarray]) -> dict[str, Quantity]:
    """By which factor the knockout of cross-class means lowers what that of class means leaves.

    The largest eigenvalue of backpropagated errors without class means over the largest without
    class and cross-class means, in the last layer with a separation.
    """
    layer = np.flatnonzero(np.isfinite(arrays["separation-errors-by-layer"]))[-1]
    left, rest = (arrays[f"errors-without-{each}"][layer] for each in ("class", "class-cross"))
    return {"cross-fall-errors": Quantity(float(left[0] / rest[0]), exact=True)}


def width_at_half(grid: np.ndarray, density: np.ndarray) -> float:
    """Width of the highest peak at half its height.

    >>> grid = np.linspace(-1, 1, 2001)
    >>> round(width_at_half(grid, np.exp(-0.5 * (grid / 0.1) ** 2)), 1)
    0.2
    """
    top = int(density.argmax())
    low = high = top
    while low > 0 and density[low - 1] > density[top] / 2:
        low -= 1
    while high < len(density) - 1 and density[high + 1] > density[top] / 2:
        high += 1
    return float(grid[high] - grid[low] + grid[1] - grid[0])
