"""Mutual information of variables that are jointly normal, from their canonical correlations."""

from __future__ import annotations

import math

import torch
from torch import Tensor

NEGLIGIBLE = 1e-10  # share of the largest singular value below which one is rounding
FEWEST = 20  # samples, below which nothing is called far from normal


def canonical_correlations(x: Tensor, z: Tensor) -> Tensor:
    """Correlations (min of both ranks,) between x (samples, size) and z, descending, float64."""
    left = _basis(x.to(torch.float64))
    right = _basis(z.to(torch.float64))
    products = left.T @ right
    # Rounding may leave one just above 1.
    return torch.linalg.svdvals(products).clamp(0, 1)


def _basis(values: Tensor) -> Tensor:
    """Orthonormal columns that span the centred columns."""
    centred = values - values.mean(0)
    left, singular, _ = torch.linalg.svd(centred, full_matrices=False)
    smallest = NEGLIGIBLE * singular[0]
    return left[:, singular > smallest]


def gaussian_information(x: Tensor, z: Tensor) -> tuple[float, float, Tensor]:
    """Information without bias for normal samples.

    E log det of a sample covariance of n samples in d dimensions is off by the sum of
    psi((n - i) / 2), i = 1..d, and terms that cancel here. The error is that of the delta method,
    with the second order that is left where nothing is correlated.

    Args:
        x: Samples (samples, size) of the first variable.
        z: Samples (samples, size) of the second.

    Returns:
        The value, its standard error, and the canonical correlations.
    """
    samples = len(x)
    p, q = _rank(x), _rank(z)
    if samples <= p + q + 1:
        raise ValueError(
            f"expected more pairs than both dimensions together ({p} + {q}) plus one, found "
            f"{samples}"
        )
    # Information depends on canonical correlations only.
    correlations = canonical_correlations(x, z)
    squares = correlations.square().clamp(max=1 - 1e-15)
    logs = torch.log1p(-squares).sum()
    apart = _digammas(samples, p) + _digammas(samples, q)
    together = _digammas(samples, p + q)
    bias = 0.5 * (apart - together)
    value = -0.5 * float(logs) - bias
    # What is left of the variance at correlation 0 is of second order.
    first_order = float(squares.sum()) / samples
    second_order = p * q / (2 * samples**2)
    return value, math.sqrt(first_order + second_order), correlations


def _rank(values: Tensor) -> int:
    centred = values - values.mean(0)
    rank = torch.linalg.matrix_rank(centred.to(torch.float64))
    return int(rank)


def _digammas(samples: int, dimensions: int) -> float:
    numbers = torch.arange(
        1,
        dimensions + 1,
        device="cpu",
        dtype=torch.float64,
    )
    halves = (samples - numbers) / 2
    return float(torch.special.digamma(halves).sum())


def far_from_normal(x: Tensor, z: Tensor) -> bool:
    """Are x and z jointly something else than normal samples would be?

    At 1 %, corrected for the number of comparisons. Looked at are every column's skewness and
    kurtosis, and the kurtosis of all columns together (Mardia 1970), which also sees normal columns
    that hang together in another way.
    """
    columns = torch.cat([x, z], 1).to(torch.float64)
    varies = columns.std(0) > 0
    columns = columns[:, varies]
    samples, size = columns.shape
    fewest = max(FEWEST, 2 * size)
    if not size or samples < fewest:
        return False
    # Moments of each column in units of what normal samples would scatter.
    standard = (columns - columns.mean(0)) / columns.std(0)
    skewness = standard.pow(3).mean(0) * math.sqrt(samples / 6)
    kurtosis = (standard.pow(4).mean(0) - 3) * math.sqrt(samples / 24)
    together = _mardia(columns)
    # Two-sided, for two moments a column and one of all together.
    level = torch.tensor(
        0.01 / (4 * size + 2),
        device="cpu",
        dtype=torch.float64,
    )
    limit = -float(torch.special.ndtri(level))
    scores = torch.cat([skewness, kurtosis, together[None]])
    beyond = scores.abs() > max(limit, 5.0)
    return bool(beyond.any())


def _mardia(columns: Tensor) -> Tensor:
    """Kurtosis of all columns together, in standard deviations of that of normal samples."""
    samples = len(columns)
    basis = _basis(columns)
    rank = basis.shape[1]
    expected = rank * (rank + 2)
    # Squared distances of samples from their mean, in units of the covariance.
    distances = basis.square().sum(1)
    found = distances.square().sum() * samples
    return (found - expected) * math.sqrt(samples / (8 * expected))
