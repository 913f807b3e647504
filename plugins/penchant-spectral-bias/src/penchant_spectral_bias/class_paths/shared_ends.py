"""The error of a mean over pairs that share ends.

Pairs with an end in common are not independent: an end that lies badly spoils all of its pairs. So
ends are left out one at a time, with all their pairs (the jackknife of a statistic of pairs). Where
no end makes a difference, half a pair on each side does, as for any share.
"""

from __future__ import annotations

import numpy as np
from penchant_numerics.statistics import binomial_stderr, jackknife


def mean_and_stderr(values: np.ndarray, ends: np.ndarray) -> tuple[float, float | None]:
    """The mean over pairs, and its standard error over ends.

    Args:
        values: One number a pair, (pairs,).
        ends: The two ends of every pair, as numbers, (pairs, 2).

    Returns:
        Mean and error; the error is None where leaving out one end leaves nothing.

    >>> ends = np.array([[0, 1], [1, 2], [0, 2]])
    >>> mean_and_stderr(np.array([1.0, 2.0, 3.0]), ends)[0]
    2.0
    """
    values = values.astype(np.float64)
    mean = float(values.mean())
    replicates = []
    for end in np.unique(ends):
        # pairs that do not contain it
        others = (ends != end).all(1)
        if not others.any():
            return mean, None
        without = values[others]
        replicates.append(float(without.mean()))
    return mean, jackknife(replicates)


def share_and_stderr(truths: np.ndarray, ends: np.ndarray) -> tuple[float, float]:
    """The share of pairs for which something holds, and its standard error over ends.

    The error is never below the binomial one of as many independent pairs.
    """
    share, stderr = mean_and_stderr(truths, ends)
    binomial = binomial_stderr(share, len(truths))
    if stderr is None:
        return share, binomial
    return share, max(binomial, stderr)
