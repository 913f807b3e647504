"""Which leading eigenvalues lie above those of isotropic architectures, index by index.

An eigenvalue is above its null where it exceeds the mean of the simulated ones by the two-sided 1 %
point of Student's t for one more draw. Directions are preferred from the first one on: behind the
first eigenvalue that is not above its null, none counts.
"""

from __future__ import annotations

import math

import numpy as np
from penchant_numerics.significance import LEVEL, p_value
from torch import Tensor

ROUNDING = 1e-9  # of sums in double precision: one input has the same eigenvalue in every draw


def above_null(
    eigenvalues: np.ndarray,
    null: np.ndarray,
    spread: np.ndarray,
    draws: int,
) -> np.ndarray:
    """Whether each direction is preferred, (k,).

    Args:
        eigenvalues: Descending, (k,).
        null: Means of as many isotropic architectures at each index.
        spread: Their standard deviations.
        draws: How many were simulated.
    """
    answers = []
    preferred = True
    for value, mean, deviation in zip(eigenvalues, null, spread):
        preferred = preferred and _p_above(value, mean, deviation, draws) <= LEVEL
        answers.append(preferred)
    return np.array(answers, dtype=bool)


def _p_above(value: float, mean: float, deviation: float, draws: int) -> float:
    """The p-value of an eigenvalue above its null; 1 for one below it."""
    difference = float(value - mean)
    if difference <= ROUNDING * abs(mean):
        return 1.0
    # One more draw differs from the mean of others by its own deviation and that of the mean.
    error = float(deviation) * math.sqrt(1 + 1 / draws)
    p = p_value(difference, error, draws - 1)
    assert p is not None
    return p


def count_above(eigenvalues: Tensor, null: Tensor) -> int:
    """How many leading eigenvalues (k,) lie above the spectra (draws, k) of isotropic draws."""
    mean, spread = null.mean(0), null.std(0)
    found = above_null(
        eigenvalues.cpu().numpy(), mean.cpu().numpy(), spread.cpu().numpy(), len(null)
    )
    return int(found.sum())


def first_p_value(eigenvalues: Tensor, null: Tensor) -> float:
    """The p-value of the first eigenvalue, and so of any number of preferred directions."""
    first = null[:, 0]
    return _p_above(float(eigenvalues[0]), float(first.mean()), float(first.std()), len(null))
