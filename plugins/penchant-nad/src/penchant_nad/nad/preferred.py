"""Which leading eigenvalues lie above those of isotropic architectures, index by index.

An eigenvalue is above its null where it exceeds the mean of the simulated ones by the two-sided 1 %
point of Student's t for one more draw. Directions are preferred from the first one on: behind the
first eigenvalue that is not above its null, none counts.

The count has no jackknife: spectra of fewer networks are wider, and would be counted against the
null of all networks. Its error is the spread of counts when every eigenvalue moves by its own
standard error.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from penchant_numerics.statistics import LEVEL, p_value
from torch import Generator, Tensor

ROUNDING = 1e-9  # of sums in double precision: one input has the same eigenvalue in every draw
DRAWS = 400


def limits(null: Tensor) -> np.ndarray:
    """What eigenvalues must exceed at each index (k,), from isotropic spectra (draws, k)."""
    from scipy.special import stdtrit

    draws = len(null)
    mean: np.ndarray = null.mean(0).cpu().numpy()
    spread: np.ndarray = null.std(0).cpu().numpy()
    # One more draw differs from the mean of others by its own deviation and that of the mean.
    error = spread * math.sqrt(1 + 1 / draws)
    point = -float(stdtrit(draws - 1, LEVEL / 2))
    limits: np.ndarray = mean + np.maximum(point * error, ROUNDING * np.abs(mean))
    return limits


def count_above(eigenvalues: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """How many leading eigenvalues (..., k) exceed their limits (k,)."""
    above = eigenvalues > limits
    counts: np.ndarray = np.cumprod(above, axis=-1).sum(-1)
    return counts


def count_stderr(
    eigenvalues: np.ndarray, stderr: np.ndarray, limits: np.ndarray, *, generator: Generator
) -> float:
    """The standard error of the count.

    Args:
        eigenvalues: Descending, (k,).
        stderr: Their standard errors; what is missing counts as 0.
        limits: What they must exceed.
        generator: A generator on the CPU.
    """
    noise = torch.randn(
        DRAWS, len(eigenvalues), generator=generator, device="cpu", dtype=torch.float64
    ).numpy()
    moved = eigenvalues + np.nan_to_num(stderr) * noise
    return float(count_above(moved, limits).std(ddof=1))


def first_p_value(eigenvalues: Tensor, null: Tensor) -> float | None:
    """The p-value of the first eigenvalue, and so of any number of preferred directions."""
    first = null[:, 0]
    mean = float(first.mean())
    difference = float(eigenvalues[0]) - mean
    if difference <= ROUNDING * abs(mean):
        return 1.0
    error = float(first.std()) * math.sqrt(1 + 1 / len(null))
    return p_value(difference, error, len(null) - 1)
