r"""What the singular values of one matrix of weights say, and those of its entries in random order.

A convolution's weights are the matrix (outputs, inputs x window). Eigenvalues are sigma^2 / N with
N the longer side, so that random entries of variance v have those of Marchenko and Pastur.

The law of Marchenko and Pastur: eigenvalues of W'W / N for random entries of variance v.

For W (N, M) with M <= N, c = M / N and edges v (1 -+ sqrt c)^2 the density is
sqrt((b - x)(x - a)) / (2 pi v c x). The largest eigenvalue fluctuates around its edge by the law
of Tracy and Widom.

References: Marchenko and Pastur, 1967; Johnstone, On the distribution of the largest eigenvalue in
principal components analysis, 2001 (the centre and scale of the largest eigenvalue).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from penchant_numerics import Refusal
from torch import Generator, Tensor

from penchant_weights.weight_spectra.tail_exponent import Tail, tail

MEASURES = ("mp-distance", "spikes", "stable-rank", "power-law")


@dataclass(frozen=True)
class Spectrum:
    """One matrix of weights."""

    singular_values: np.ndarray  # descending
    shape: tuple[int, int]
    edge: float  # of Marchenko and Pastur, as a singular value
    tail: Tail | None
    values: dict[str, float]  # by the names of MEASURES


def as_matrix(weight: Tensor) -> Tensor:
    """Weights (outputs, ...) as a matrix in double precision, whatever precision they have."""
    return weight.detach().to("cpu", torch.float64).flatten(1)


def spectrum(matrix: Tensor, *, random: np.random.Generator | None = None) -> Spectrum:
    """Singular values of a matrix, their tail, and what they are compared by.

    Args:
        matrix: A matrix in double precision.
        random: Random numbers of the bootstrap; without it the tail has no standard error.

    Raises:
        Refusal: Where entries are not finite, or all zero.
    """
    if not bool(torch.isfinite(matrix).all()):
        raise Refusal("has entries that are not finite")
    sigma = torch.linalg.svdvals(matrix).numpy()
    if not sigma[0] > 0:
        raise Refusal("is zero everywhere")
    rows, columns = matrix.shape
    longer = max(rows, columns)
    eigenvalues = np.square(sigma) / longer
    variance = float(matrix.square().mean())
    fit = tail(eigenvalues, generator=random)
    chance = largest_by_chance(rows, columns, variance)
    values = {
        "mp-distance": distance(eigenvalues, rows, columns, variance),
        "spikes": float((eigenvalues > chance).sum()),
        "stable-rank": float(np.square(sigma).sum() / sigma[0] ** 2),
        "power-law": float(fit is not None and fit.accepted),
    }
    _, high = edges(rows, columns, variance)
    return Spectrum(sigma, (rows, columns), float(np.sqrt(high * longer)), fit, values)


def shuffled(matrix: Tensor, *, generator: Generator) -> Tensor:
    """The same entries in random order."""
    order = torch.randperm(matrix.numel(), generator=generator, device="cpu")
    return matrix.flatten()[order].reshape(matrix.shape)


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
