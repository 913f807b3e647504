"""How much better one set of trainings does than another on the same test samples."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def advantage(ours: NDArray[np.bool_], others: NDArray[np.bool_]) -> tuple[float, float]:
    """Mean accuracy minus that of the others, and its standard error.

    Drawn again, both the trainings and the test samples would differ. A pair of trainings (one of
    each kind) has a gap of accuracies, whose spread over pairs tells the first; the second is the
    spread of the mean gap over test samples. Two pairs may agree by chance, so without the second
    the error of few trainings is often far too small.

    Args:
        ours: Whether a training was right, (trainings, settings, samples).
        others: The same of the trainings it is compared with.
    """
    # Both kinds have the same test samples, so a gap is a difference of pairs.
    gaps = ours.mean(2).T - others.mean(2).T  # (settings, trainings)
    by_training = gaps.mean(0)
    by_sample = ours.mean((0, 1)) - others.mean((0, 1))
    # What other test samples would change, then what other trainings would.
    variance = by_sample.var(ddof=1) / len(by_sample)
    trainings = len(by_training)
    if trainings > 1:
        variance += by_training.var(ddof=1) / trainings
    value = by_training.mean()
    return float(value), math.sqrt(variance)
