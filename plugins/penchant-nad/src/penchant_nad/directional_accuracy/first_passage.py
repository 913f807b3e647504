"""When a noisy loss is first below a target."""

from __future__ import annotations

import math

import numpy as np

WINDOW = 10  # steps whose mean loss is compared with the target: a single batch is too noisy


def steps_to_loss(losses: np.ndarray, target: float, window: int = WINDOW) -> float:
    """The first step at which the mean of the last `window` losses is below the target.

    Args:
        losses: The loss of every step (steps,).
        target: What is to be reached.
        window: Steps that are averaged; all of them where there are fewer.

    Returns:
        The step, or NaN where the target is never reached.

    >>> steps_to_loss(np.array([4.0, 2.0, 1.0, 0.5, 0.25]), 1.0, window=2)
    4.0
    """
    # An untrained network has no losses.
    if not len(losses):
        return math.nan
    window = min(window, len(losses))
    weights = np.full(window, 1 / window)
    means = np.convolve(losses, weights, mode="valid")
    (below,) = np.nonzero(means < target)
    if not len(below):
        return math.nan
    # The mean of a window belongs to its last step.
    return float(below[0] + window)
