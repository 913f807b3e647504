"""Eigenvectors of a Gaussian kernel as a generalised notion of frequency."""

import torch
from penchant_numerics.linear_algebra import descending_eigh
from torch import Tensor


def kernel_matrix(points: Tensor, width: float) -> Tensor:
    """exp(-|x - y|^2 / width^2) between all points (points, dimensions), in double precision."""
    points = points.double()
    # by differences: a product of matrices would lose small distances
    mode = "donot_use_mm_for_euclid_dist"
    distances = torch.cdist(points, points, compute_mode=mode)
    exponents = -distances.square() / width**2
    return torch.exp(exponents)


def eigenvectors(points: Tensor, width: float) -> tuple[Tensor, Tensor]:
    """Eigenvalues, descending, and orthonormal eigenvectors as rows.

    The later an eigenvector, the faster it varies among the points.
    """
    matrix = kernel_matrix(points, width)
    return descending_eigh(matrix)


def rising_noise(count: int, power: float, *, device: torch.device | str) -> Tensor:
    """Coefficients (n / N)^power of the noise on eigenvectors n = 1..N."""
    numbers = torch.arange(1, count + 1, device=device, dtype=torch.float64)
    shares = numbers / count
    return shares**power


def grid_eigenvectors(points: int, width: float, *, device: torch.device | str) -> Tensor:
    """Eigenvectors on equidistant points of [0, 1], (eigenvectors, points)."""
    line = torch.linspace(0, 1, points, device=device, dtype=torch.float64)
    # points of one dimension
    column = line[:, None]
    _, vectors = eigenvectors(column, width)
    return vectors


def grid_spectrum(vectors: Tensor) -> Tensor:
    """|DFT| / sqrt(N) of eigenvectors on equidistant points, (eigenvectors, frequencies 0..N/2).

    The n-th has about n / 2 periods: the index of an eigenvector is a frequency.
    """
    transform = torch.fft.rfft(vectors)
    points = vectors.shape[1]
    spectra: Tensor = transform.abs() / points**0.5
    return spectra


def grid_slope(vectors: Tensor) -> float:
    """Cycles per number of eigenvectors on equidistant points: 1/2 where the n-th has n / 2.

    The least-squares slope of the frequency with the largest |DFT| by the number.
    """
    frequencies = grid_spectrum(vectors).argmax(1).double()
    numbers = torch.arange(len(vectors), device=vectors.device, dtype=torch.float64)
    away = numbers - numbers.mean()
    return float(frequencies @ away / (away @ away))


def bin_edges(count: int, bins: int) -> list[tuple[int, int]]:
    """First and last (exclusive) index of every bin of neighbouring eigenvectors.

    >>> bin_edges(5, 2)
    [(0, 2), (2, 5)]
    """
    line = torch.linspace(0, count, bins + 1, device="cpu")
    edges = line.round().long().tolist()
    # each edge with the next one
    firsts = edges[:-1]
    lasts = edges[1:]
    return list(zip(firsts, lasts))


def root_mean_squares(coefficients: Tensor, bins: int) -> Tensor:
    """Root mean square of the coefficients in each bin of eigenvectors, (..., bins)."""
    amplitudes = []
    count = coefficients.shape[-1]
    for first, last in bin_edges(count, bins):
        inside = coefficients[..., first:last]
        mean_square = inside.square().mean(-1)
        amplitudes.append(mean_square.sqrt())
    return torch.stack(amplitudes, dim=-1)


def learnt_share(coefficients: Tensor, target: Tensor, bins: int) -> Tensor:
    """How much of a target a function has in each bin of coefficients, (..., bins): 0 none, 1 all.

    Args:
        coefficients: Those of the function, (..., N).
        target: Those of what it should learn, (N,).
        bins: Neighbouring eigenvectors are taken together, as single coefficients are small.
    """
    projections = []
    for first, last in bin_edges(len(target), bins):
        inside = target[first:last]
        # projection on the target, over its square
        projection = coefficients[..., first:last] @ inside
        projections.append(projection / inside.square().sum())
    return torch.stack(projections, dim=-1)
