"""Eigenvectors of a Gaussian kernel as a generalised notion of frequency."""

from __future__ import annotations

import torch
from penchant_numerics.moments import descending_eigh
from torch import Tensor


def kernel_matrix(points: Tensor, width: float) -> Tensor:
    """exp(-|x - y|^2 / width^2) between all points (points, dimensions), in double precision."""
    points = points.double()
    distances = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    return torch.exp(-distances.square() / width**2)


def eigenvectors(points: Tensor, width: float) -> tuple[Tensor, Tensor]:
    """Eigenvalues, descending, and orthonormal eigenvectors as rows.

    The later an eigenvector, the faster it varies among the points.
    """
    return descending_eigh(kernel_matrix(points, width))


def rising_noise(count: int, power: float, *, device: torch.device | str) -> Tensor:
    """Coefficients (n / N)^power of the noise on eigenvectors n = 1..N."""
    numbers = torch.arange(1, count + 1, device=device, dtype=torch.float64)
    return (numbers / count) ** power


def grid_eigenvectors(points: int, width: float, *, device: torch.device | str) -> Tensor:
    """Eigenvectors on equidistant points of [0, 1], (eigenvectors, points)."""
    line = torch.linspace(0, 1, points, device=device, dtype=torch.float64)
    _, vectors = eigenvectors(line[:, None], width)
    return vectors


def grid_spectrum(vectors: Tensor) -> Tensor:
    """|DFT| / sqrt(N) of eigenvectors on equidistant points, (eigenvectors, frequencies 0..N/2).

    The n-th has about n / 2 periods: the index of an eigenvector is a frequency.
    """
    return torch.fft.rfft(vectors).abs() / vectors.shape[1] ** 0.5


def bin_edges(count: int, bins: int) -> list[tuple[int, int]]:
    """First and last (exclusive) index of every bin of neighbouring eigenvectors.

    >>> bin_edges(5, 2)
    [(0, 2), (2, 5)]
    """
    edges = torch.linspace(0, count, bins + 1, device="cpu").round().long().tolist()
    return list(zip(edges[:-1], edges[1:]))


def root_mean_squares(coefficients: Tensor, bins: int) -> Tensor:
    """Root mean square of the coefficients in each bin of eigenvectors, (..., bins)."""
    parts = []
    for first, last in bin_edges(coefficients.shape[-1], bins):
        inside = coefficients[..., first:last]
        parts.append(inside.square().mean(-1).sqrt())
    return torch.stack(parts, dim=-1)


def learnt_share(coefficients: Tensor, wanted: Tensor, bins: int) -> Tensor:
    """How much of the wanted coefficients a function has in each bin, (..., bins): 0 none, 1 all.

    Args:
        coefficients: Those of the function, (..., N).
        wanted: Those of what it should learn, (N,).
        bins: Neighbouring eigenvectors are taken together, as single coefficients are small.
    """
    parts = []
    for first, last in bin_edges(len(wanted), bins):
        inside = wanted[first:last]
        parts.append((coefficients[..., first:last] @ inside) / inside.square().sum())
    return torch.stack(parts, dim=-1)
