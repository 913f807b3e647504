"""Do samples depend on each other? Series that change slowly, and rows that are copies of others.

Estimators take pairs for independent draws. Where neighbouring rows are alike there are fewer of
them than rows, and errors are too small; copies of a row pass for information without end.

The variance of a mean of products of x and z grows by 1 + 2 sum_k r_x(k) r_z(k), with the
autocorrelations r of both at lag k (Bartlett 1946).
"""

import torch
from torch import Tensor

from penchant_mine.shared.information.pairs import normal_scores

FEWEST = 50  # samples, of which autocorrelations are taken
LAGS = 200  # at most, and at most a tenth of the samples
MOST = 32  # columns of x or z that are evaluated
COPIED = 0.02  # of the rows: fewer may be chance


def inflation(x: Tensor, z: Tensor) -> float:
    """By how much the variance of an estimate is larger than that of independent rows, at least.

    1 for rows that were sorted: those of independent draws depend on each other by their order
    alone, which no estimate sees.
    """
    if len(x) < FEWEST or is_sorted(x) or is_sorted(z):
        return 1.0
    products = _autocorrelations(x) @ _autocorrelations(z).T
    return 1 + 2 * max(0.0, float(products.max()))


def _autocorrelations(values: Tensor) -> Tensor:
    """Of columns, and of their distances from the middle, at every lag (2 columns, lags)."""
    step = -(-values.shape[1] // MOST)
    scores = normal_scores(values[:, ::step].to(torch.float64))
    columns = torch.cat([scores, scores.abs()], 1).T
    columns = columns - columns.mean(1, keepdim=True)
    samples = len(values)
    lags = min(LAGS, samples // 10)
    # Zeros behind the end: otherwise the last rows would be neighbours of the first.
    power = torch.fft.rfft(columns, 2 * samples).abs().square()
    sums = torch.fft.irfft(power, 2 * samples)
    whole = sums[:, :1]
    return torch.where(whole > 0, sums[:, 1 : lags + 1] / whole, 0.0)


def is_sorted(values: Tensor) -> bool:
    """Does a column rise or fall all along, or do equal rows stand together?"""
    steps = values.diff(dim=0)
    moves = (steps != 0).any(0)
    monotone = ((steps >= 0).all(0) | (steps <= 0).all(0)) & moves
    if bool(monotone.any()):
        return True
    numbers = row_numbers(values)
    different = int(numbers.max()) + 1
    changes = int((numbers.diff() != 0).sum())
    return different <= len(values) / 2 and changes == different - 1


def row_numbers(values: Tensor) -> Tensor:
    """A number (samples,) for every row, the same for equal rows."""
    weights = torch.arange(1, values.shape[1] + 1, device=values.device, dtype=torch.float64)
    # One number a row is enough to tell rows apart, and is sorted faster than rows.
    projected = (values.to(torch.float64) * weights.sqrt().cos()).sum(1)
    numbers: Tensor = torch.unique(projected, return_inverse=True)[1]
    return numbers


def copied_rows(x: Tensor, z: Tensor) -> int:
    """How many rows are copies of others: x and z are equal, and never one without the other.

    Few different values are equal by themselves, so that a few such rows are none.
    """
    in_x, in_z = row_numbers(x), row_numbers(z)
    pairs = in_x * (int(in_z.max()) + 1) + in_z
    _, together, counts = torch.unique(pairs, return_inverse=True, return_counts=True)
    first = torch.zeros_like(counts).scatter_(0, together, torch.arange(len(x), device=x.device))
    alone = (in_x.bincount()[in_x[first]] == counts) & (in_z.bincount()[in_z[first]] == counts)
    copied = alone & (counts > 1)
    if int(copied.sum()) <= max(10, COPIED * len(x)):
        return 0
    return int((counts[copied] - 1).sum())
