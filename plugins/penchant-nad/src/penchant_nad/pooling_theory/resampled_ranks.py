"""How far a rank correlation would move if trainings were drawn again, where its pairs are given.

The usual standard error of a rank correlation is over pairs: it says what other pairs would give.
Where the pairs are given and each has a mean over trainings, only the trainings move it. A rank
correlation is no smooth function of them, so trainings are drawn again with replacement, all pairs
together, as they share their trainings.
"""

from __future__ import annotations

import math

import numpy as np
from torch import Generator, randint

DRAWS = 500


def rank_correlation_stderr(
    values: np.ndarray, order: np.ndarray, *, generator: Generator
) -> float:
    """The bootstrap's standard error of the rank correlation of mean values with an order.

    Args:
        values: Values (pairs, trainings), at least two trainings.
        order: The other side (pairs,), which is given.
        generator: A generator on the CPU.
    """
    from scipy.stats import rankdata

    trainings = values.shape[1]
    chosen = randint(trainings, (DRAWS, trainings), generator=generator, device="cpu").numpy()
    means = values[:, chosen].mean(2).T  # (draws, pairs)
    ranks = rankdata(means, axis=1) - (len(order) + 1) / 2
    other = rankdata(order) - (len(order) + 1) / 2
    scale = np.linalg.norm(ranks, axis=1) * np.linalg.norm(other)
    # Trainings sampled with replacement vary less than fresh ones by (n - 1) / n.
    spread = (ranks @ other / scale).std(ddof=1)
    return float(spread) * math.sqrt(trainings / (trainings - 1))
