"""Means of numbers that are only known in steps.

A step of training is known up to the steps between two evaluations, a count to
one whole. Rounded to steps of width h, a number is off by up to h / 2, uniformly: a variance of
h^2 / 12. Where all numbers fall on one step their spread is 0, but their mean is not known better
than this.
"""

from __future__ import annotations

import math

import numpy as np
from penchant_numerics.statistics import Numbers


def mean_and_stderr(values: Numbers, step: float) -> tuple[float, float | None]:
    """The mean of independent values, and its standard error, the resolution included.

    Args:
        values: Numbers of independent trainings.
        step: The width to which each is known.

    Returns:
        The mean, and sqrt((s^2 + step^2 / 12) / n), None with fewer than two values.

    >>> mean_and_stderr([80.0, 80.0, 80.0], 10.0)
    (80.0, 1.6666666666666667)
    """
    numbers = np.asarray(values, dtype=np.float64)
    count = len(numbers)
    mean = float(numbers.mean())
    if count < 2:
        return mean, None
    spread = float(numbers.var(ddof=1))
    # of a number that is uniform in its step
    rounding = step**2 / 12
    variance = (spread + rounding) / count
    return mean, math.sqrt(variance)
