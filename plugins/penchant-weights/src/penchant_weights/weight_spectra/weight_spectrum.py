"""What the singular values of one matrix of weights say, and those of its entries in random order.

A convolution's weights are the matrix (outputs, inputs x window). Eigenvalues are sigma^2 / N with
N the longer side, so that random entries of variance v have those of Marchenko and Pastur.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor

from penchant_weights.weight_spectra import marchenko_pastur
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
        ValueError: Where entries are not finite, or all zero.
    """
    if not bool(torch.isfinite(matrix).all()):
        raise ValueError("has entries that are not finite")
    sigma = torch.linalg.svdvals(matrix).numpy()
    if not sigma[0] > 0:
        raise ValueError("is zero everywhere")
    rows, columns = matrix.shape
    longer = max(rows, columns)
    eigenvalues = np.square(sigma) / longer
    variance = float(matrix.square().mean())
    fit = tail(eigenvalues, generator=random)
    chance = marchenko_pastur.largest_by_chance(rows, columns, variance)
    values = {
        "mp-distance": marchenko_pastur.distance(eigenvalues, rows, columns, variance),
        "spikes": float((eigenvalues > chance).sum()),
        "stable-rank": float(np.square(sigma).sum() / sigma[0] ** 2),
        "power-law": float(fit is not None and fit.accepted),
    }
    _, high = marchenko_pastur.edges(rows, columns, variance)
    return Spectrum(sigma, (rows, columns), float(np.sqrt(high * longer)), fit, values)


def shuffled(matrix: Tensor, *, generator: Generator) -> Tensor:
    """The same entries in random order."""
    order = torch.randperm(matrix.numel(), generator=generator, device="cpu")
    return matrix.flatten()[order].reshape(matrix.shape)
