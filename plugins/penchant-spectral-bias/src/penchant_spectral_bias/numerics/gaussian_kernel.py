"""Eigenvectors of a Gaussian kernel as a generalised notion of frequency."""

from __future__ import annotations

import torch
from penchant_numerics.moments import descending_eigh
from torch import Tensor


def kernel_matrix(points: Tensor, sigma: float) -> Tensor:
    """exp(-|x - y|^2 / sigma^2) between all points (points, dimensions), in double precision."""
    points = points.double()
    return torch.exp(
        -torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist").square()
        / sigma**2
    )


def eigenvectors(points: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
    """Eigenvalues, descending, and orthonormal eigenvectors as rows: the later, the faster they vary among the points."""
    return descending_eigh(kernel_matrix(points, sigma))


def rising_noise(count: int, power: float, *, device: torch.device | str) -> Tensor:
    """Coefficients (n / N)^power of the noise on eigenvectors n = 1..N."""
    return (torch.arange(1, count + 1, device=device, dtype=torch.float64) / count) ** power


def grid_spectrum(points: int, sigma: float, *, device: torch.device | str) -> Tensor:
    """|DFT| / sqrt(N) of the eigenvectors on equidistant points of [0, 1], (eigenvectors, frequencies 0..N/2).

    The n-th has about n / 2 periods: the index of an eigenvector is a frequency.
    """
    line = torch.linspace(0, 1, points, device=device, dtype=torch.float64)
    _, vectors = eigenvectors(line[:, None], sigma)
    return torch.fft.rfft(vectors).abs() / points**0.5


def learnt_share(coefficients: Tensor, wanted: Tensor, bins: int) -> Tensor:
    """How much of the wanted coefficients a function has in each bin of eigenvectors, (..., bins): 0 none, 1 all.

    Args:
        coefficients: Those of the function, (..., N).
        wanted: Those of what it should learn, (N,).
        bins: Neighbouring eigenvectors are taken together, as single coefficients are small.
    """
    edges = torch.linspace(0, len(wanted), bins + 1, device="cpu").round().long().tolist()
    pairs = list(zip(edges[:-1], edges[1:]))
    return torch.stack(
        [(coefficients[..., a:b] @ wanted[a:b]) / wanted[a:b].square().sum() for a, b in pairs],
        dim=-1,
    )
