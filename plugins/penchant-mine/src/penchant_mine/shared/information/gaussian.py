"""Mutual information of variables that are jointly normal, from their canonical correlations."""

import math

import torch
from penchant_numerics import Refusal
from torch import Tensor

from penchant_mine.shared.information.cross_cumulants import cross_scores, skewness_score

NEGLIGIBLE = 1e-10  # share of the largest singular value below which one is rounding
FEWEST = 20  # samples, below which nothing is called far from normal


def canonical_correlations(x: Tensor, z: Tensor) -> Tensor:
    """Correlations (min of both ranks,) between x (samples, size) and z, descending, float64."""
    left = _basis(x.to(torch.float64))
    right = _basis(z.to(torch.float64))
    products = left.T @ right
    # Rounding may leave one just above 1.
    correlations: Tensor = torch.linalg.svdvals(products).clamp(0, 1)
    return correlations


def _basis(values: Tensor) -> Tensor:
    """Orthonormal columns that span the centred columns."""
    centred = values - values.mean(0)
    left, singular, _ = torch.linalg.svd(centred, full_matrices=False)
    smallest = NEGLIGIBLE * singular[0]
    basis: Tensor = left[:, singular > smallest]
    return basis


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
        raise Refusal(
            f"gaussian: expected more pairs than both dimensions together ({p} + {q}) plus one, "
            f"found {samples}"
        )
    # Information depends on canonical correlations only.
    correlations = canonical_correlations(x, z)
    squares = correlations.square().clamp(max=1 - 1e-15)
    logs = torch.log1p(-squares).sum()
    marginal = _digammas(samples, p) + _digammas(samples, q)
    together = _digammas(samples, p + q)
    bias = 0.5 * (marginal - together)
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
    numbers = torch.arange(1, dimensions + 1, device="cpu", dtype=torch.float64)
    halves = (samples - numbers) / 2
    return float(torch.special.digamma(halves).sum())


def far_from_normal(x: Tensor, z: Tensor) -> bool:
    """Are x and z jointly something else than normal samples would be?

    At 1 %, corrected for the number of comparisons. The tests are of every column's skewness and
    kurtosis, those of all columns together (Mardia 1970), cumulants of three and four columns, and
    what a line through one variable leaves of the other: of normal variables it is independent of
    the first.
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
    basis = _basis(columns)
    together = torch.stack([_mardia(basis), skewness_score(basis)])
    inside = varies[: x.shape[1]].sum()
    cross = cross_scores(columns[:, :inside], columns[:, inside:])
    variates = _canonical_variates(x.to(torch.float64), z.to(torch.float64))
    ways = (variates, variates[::-1])
    left_over = [_left_over(*way).flatten() for way in ways]
    scores = torch.cat([skewness, kurtosis, together, cross, *left_over])
    # Two-sided, for all of them together.
    level = torch.tensor(0.01 / (2 * len(scores)), device="cpu", dtype=torch.float64)
    limit = -float(torch.special.ndtri(level))
    beyond = scores.abs() > max(limit, 5.0)
    return bool(beyond.any())


def _canonical_variates(x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Orthonormal columns of x and of z, those that are most correlated first, one with one."""
    left, right = _basis(x), _basis(z)
    turn, _, other_turn = torch.linalg.svd(left.T @ right)
    return left @ turn, right @ other_turn.T


def _left_over(x: Tensor, z: Tensor) -> Tensor:
    """Correlations of what a line through x leaves of z with curved functions of x.

    Orthonormal columns are taken. The functions are squares, and each column times the squared
    length. In units of what normal samples would scatter.
    """
    residual = z - x @ (x.T @ z)
    squared_length = x.square().sum(1, keepdim=True)
    curved = torch.cat([x.square(), x * squared_length], 1)
    # A line through x leaves nothing that is linear in it.
    bent = _unit(curved - x @ (x.T @ curved))
    freedom = len(x) - x.shape[1]
    return _unit(residual).T @ bent * math.sqrt(freedom)


def _unit(columns: Tensor) -> Tensor:
    """Columns less their mean, of length 1; those that are constant to rounding are 0."""
    centred = columns - columns.mean(0)
    length = centred.norm(dim=0)
    smallest = NEGLIGIBLE * columns.norm(dim=0)
    return torch.where(length > smallest, centred / length, 0.0)


def _mardia(basis: Tensor) -> Tensor:
    """Kurtosis of all columns together, in standard deviations of that of normal samples."""
    samples, rank = basis.shape
    expected = rank * (rank + 2)
    # Squared distances of samples from their mean, in units of the covariance.
    distances = basis.square().sum(1)
    statistic = distances.square().sum() * samples
    return (statistic - expected) * math.sqrt(samples / (8 * expected))
