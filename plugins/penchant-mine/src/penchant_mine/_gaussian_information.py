"""Mutual information of variables that are jointly normal, from their canonical correlations."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def canonical_correlations(x: Tensor, z: Tensor) -> Tensor:
    """Correlations (min of both ranks,) between x (samples, size) and z, descending, in float64."""
    bases = []
    for each in (x, z):
        centred = each.to(torch.float64) - each.to(torch.float64).mean(0)
        left, values, _ = torch.linalg.svd(centred, full_matrices=False)
        bases.append(left[:, values > 1e-10 * values[0]])
    return torch.linalg.svdvals(bases[0].T @ bases[1]).clamp(0, 1)


def gaussian_information(x: Tensor, z: Tensor) -> tuple[float, float, Tensor]:
    """Information without bias for normal samples, its standard error, and the canonical correlations.

    E log det of a sample covariance of n samples in d dimensions is off by the sum of psi((n - i) / 2), i = 1..d, and terms that
    cancel here. The error is that of the delta method, with the second order that is left where nothing is correlated.
    """
    samples, (p, q) = len(x), (_rank(x), _rank(z))
    if samples <= p + q + 1:
        raise ValueError(
            f"expected more pairs than both dimensions together ({p} + {q}) plus one, found {samples}"
        )
    correlations = canonical_correlations(x, z)
    squares = correlations.square().clamp(max=1 - 1e-15)
    bias = 0.5 * (_digammas(samples, p) + _digammas(samples, q) - _digammas(samples, p + q))
    value = -0.5 * float(torch.log1p(-squares).sum()) - bias
    return value, math.sqrt(float(squares.sum()) / samples + p * q / (2 * samples**2)), correlations


def _rank(values: Tensor) -> int:
    return int(torch.linalg.matrix_rank((values - values.mean(0)).to(torch.float64)))


def _digammas(samples: int, dimensions: int) -> float:
    halves = (samples - torch.arange(1, dimensions + 1, device="cpu", dtype=torch.float64)) / 2
    return float(torch.special.digamma(halves).sum())


def far_from_normal(x: Tensor, z: Tensor) -> bool:
    """Are x and z jointly something else than normal samples would be (1 %, corrected for the number of comparisons)?

    Looked at are every column's skewness and kurtosis, and the kurtosis of all columns together (Mardia 1970), which also sees
    normal columns that hang together in another way.
    """
    columns = torch.cat([x, z], 1).to(torch.float64)
    columns = columns[:, columns.std(0) > 0]
    samples, size = columns.shape
    if not size or samples < max(20, 2 * size):
        return False
    standard = (columns - columns.mean(0)) / columns.std(0)
    skewness = standard.pow(3).mean(0) * math.sqrt(samples / 6)
    kurtosis = (standard.pow(4).mean(0) - 3) * math.sqrt(samples / 24)
    left, values, _ = torch.linalg.svd(columns - columns.mean(0), full_matrices=False)
    left = left[:, values > 1e-10 * values[0]]
    rank = left.shape[1]
    together = (left.square().sum(1).square().sum() * samples - rank * (rank + 2)) * math.sqrt(
        samples / (8 * rank * (rank + 2))
    )
    level = 0.01 / (4 * size + 2)
    limit = -float(torch.special.ndtri(torch.tensor(level, device="cpu", dtype=torch.float64)))
    return bool((torch.cat([skewness, kurtosis, together[None]]).abs() > max(limit, 5.0)).any())
