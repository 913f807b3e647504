"""Third and fourth cumulants of several columns, which are 0 for normal samples.

Columns may be normal two by two and depend on each other three by three, as signs whose product is
fixed. Mardia's skewness adds up all third moments of uncorrelated columns, whatever their axes; the
cumulants of three and four different columns, of x and of z, see single ones of many.

References: Mardia, "Measures of multivariate skewness and kurtosis with applications", Biometrika
57, 1970; McCullagh, Tensor methods in statistics, 1987.
"""

import math

import torch
from torch import Tensor

MOST = 40  # columns of x and z together
SAMPLES = 8192  # that are evaluated


def skewness_score(basis: Tensor) -> Tensor:
    """Mardia's skewness of uncorrelated columns (samples, size) of length 1, as a normal score."""
    samples, size = basis.shape
    columns = basis * math.sqrt(samples)
    squared = (columns @ columns.T).pow(3).mean() if samples <= size**2 else _third(columns)
    freedom = size * (size + 1) * (size + 2) / 6
    # Mardia's correction for few samples, 1974.
    more = (size + 1) * (samples + 1) * (samples + 3)
    correction = more / (samples * ((samples + 1) * (size + 1) - 6))
    share = samples * correction * squared / 6 / freedom
    # Wilson and Hilferty: the cube root of chi-squared is nearly normal.
    spread = 2 / (9 * freedom)
    score: Tensor = (share.pow(1 / 3) - (1 - spread)) / math.sqrt(spread)
    return score


def _third(columns: Tensor) -> Tensor:
    """Sum of all squared third moments: the same number, from moments instead of samples."""
    samples = len(columns)
    moments = [(columns * each[:, None]).T @ columns / samples for each in columns.T]
    return torch.stack(moments).square().sum()


def cross_scores(x: Tensor, z: Tensor) -> Tensor:
    """Cumulants of three and of four different columns, some of x and some of z, per error."""
    size_x, size_z = x.shape[1], z.shape[1]
    size = size_x + size_z
    empty = x.new_zeros(0)
    if size > MOST or size < 3:
        return empty
    step = -(-len(x) // SAMPLES)
    columns = torch.cat([x, z], 1)[::step]
    columns = (columns - columns.mean(0)) / columns.std(0, correction=0)
    samples = len(columns)
    first, second = torch.triu_indices(size, size, 1, device=x.device)
    products = columns[:, first] * columns[:, second]
    in_x = torch.arange(size, device=x.device) < size_x
    pairs_in_x = in_x[first].to(torch.int64) + in_x[second]  # how many of both

    third, error = _mean_and_error(products, columns, samples)
    ordered = second[:, None] < torch.arange(size, device=x.device)
    count = pairs_in_x[:, None] + in_x.to(torch.int64)
    chosen = ordered & (count > 0) & (count < 3)
    scores = [(third / error)[chosen]]

    fourth, error = _mean_and_error(products, products, samples)
    r = columns.T @ columns / samples
    a, b, c, d = first[:, None], second[:, None], first[None], second[None]
    fourth = fourth - r[a, b] * r[c, d] - r[a, c] * r[b, d] - r[a, d] * r[b, c]
    count = pairs_in_x[:, None] + pairs_in_x
    chosen = (b < c) & (count > 0) & (count < 4)
    scores.append((fourth / error)[chosen])
    return torch.cat(scores)


def _mean_and_error(left: Tensor, right: Tensor, samples: int) -> tuple[Tensor, Tensor]:
    """Means of products of two columns, and their standard errors."""
    mean = left.T @ right / samples
    squares = left.square().T @ right.square() / samples
    variance = (squares - mean.square()) / samples
    return mean, variance.clamp(min=1e-30).sqrt()
