r"""The law of Marchenko and Pastur: eigenvalues of W'W / N for random entries of variance v.

For W (N, M) with M <= N, c = M / N and edges v (1 -+ sqrt c)^2 the density is
sqrt((b - x)(x - a)) / (2 pi v c x). The largest eigenvalue fluctuates around its edge by the law
of Tracy and Widom.

References: Marchenko and Pastur, 1967; Johnstone, On the distribution of the largest eigenvalue in
principal components analysis, 2001 (the centre and scale of the largest eigenvalue).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_GRID = 4001  # angles of the integral, which is smooth in them
_TRACY_WIDOM = 2.0234  # the 99 % point for real entries


def edges(rows: int, columns: int, variance: float) -> tuple[float, float]:
    """The ends of the law, for a matrix with sides in any order.

    >>> edges(400, 100, 1.0)
    (0.25, 2.25)
    """
    root = math.sqrt(min(rows, columns) / max(rows, columns))
    return variance * (1 - root) ** 2, variance * (1 + root) ** 2


def largest_by_chance(rows: int, columns: int, variance: float) -> float:
    """What the largest eigenvalue of random entries exceeds in one of a hundred matrices."""
    first, second = math.sqrt(rows - 0.5), math.sqrt(columns - 0.5)
    centre = (first + second) ** 2
    scale: float = (first + second) * (1 / first + 1 / second) ** (1 / 3)
    return variance * (centre + _TRACY_WIDOM * scale) / max(rows, columns)


def distribution(
    values: NDArray[np.float64], rows: int, columns: int, variance: float
) -> NDArray[np.float64]:
    """The law's distribution function at values.

    Args:
        values: Where.
        rows: One side of the matrix.
        columns: The other side.
        variance: Variance v of the entries.
    """
    low, high = edges(rows, columns, variance)
    ratio = min(rows, columns) / max(rows, columns)
    # x = middle - half cos(angle): roots at both ends become smooth
    angles = np.linspace(0, np.pi, _GRID)
    middle, half = (low + high) / 2, (high - low) / 2
    x = middle - half * np.cos(angles)
    # for square matrices the density has a pole at 0, which the squared sine cancels
    inside = np.square(half * np.sin(angles))
    density = np.divide(inside, x, out=np.full_like(x, 2 * half), where=x > 1e-12 * high)
    density /= 2 * np.pi * variance * ratio
    steps = (density[1:] + density[:-1]) / 2 * np.diff(angles)
    mass = np.concatenate([[0.0], np.cumsum(steps)])
    shares: np.ndarray = np.interp(values, x, mass / mass[-1], left=0.0, right=1.0)
    return shares


def distance(eigenvalues: NDArray[np.float64], rows: int, columns: int, variance: float) -> float:
    """Largest difference of the distributions of eigenvalues and of the law (Kolmogorov)."""
    ordered = np.sort(eigenvalues)
    law = distribution(ordered, rows, columns, variance)
    ranks = np.arange(len(ordered) + 1) / len(ordered)
    return float(max(np.abs(law - ranks[1:]).max(), np.abs(law - ranks[:-1]).max()))
