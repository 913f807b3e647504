"""How much do samples that are neighbours along one column of x have in common in one of z?

Nothing is too fine for it that spans more than a few samples: many periods of a wave, say. Of a
normal variable z the information is at least -log(v) / 2, where v is the mean variance of z given x
as a share of the whole (the normal has most entropy), and half the mean squared difference of
neighbours is no less than v. Any continuous z is normal after a map.

Reference: von Neumann, "Distribution of the ratio of the mean square successive difference to the
variance", 1941; Chatterjee, "A new coefficient of correlation", JASA 2021.
"""

import math

import torch
from torch import Tensor

from penchant_mine.shared.information.pairs import normal_scores

MOST = 10000  # pairs of columns that are evaluated
LEVEL = 1e-3  # chance that any column seems to depend on another where all are independent
LEAST = 1e-6  # of the variance: closer neighbours count as if they were as far apart
DEPENDENT = 1.5  # times the variance of independent differences; neighbours share samples


def information_along_columns(x: Tensor, z: Tensor) -> tuple[float, float]:
    """The largest lower bound of two columns, either way, and its standard error; or 0."""
    if x.shape[1] * z.shape[1] > MOST:
        return 0.0, 0.0
    both = max(_along(x, z), _along(z, x))
    comparisons = 2 * x.shape[1] * z.shape[1]
    chance = 0.5 * math.erfc(both[1] / math.sqrt(2))
    return (both[0], both[2]) if chance * comparisons < LEVEL else (0.0, 0.0)


def _along(x: Tensor, z: Tensor) -> tuple[float, float, float]:
    """Of the best two columns: the bound, the score of what neighbours share, and the error."""
    continuous = [len(torch.unique(column)) > 0.99 * len(column) for column in z.T]
    values = normal_scores(z[:, continuous].to(torch.float64))
    samples = len(x)
    best = (0.0, 0.0, 0.0)
    if not values.shape[1]:
        return best
    variance = values.var(0, correction=0)
    for column in x.T:
        order = column.argsort(stable=True)
        terms = values[order].diff(dim=0).square() / (2 * variance)
        share = terms.mean(0).clamp(min=LEAST)
        nearest = int(share.argmin())
        left = float(share[nearest])
        error = math.sqrt(DEPENDENT * float(terms[:, nearest].var()) / samples) / (2 * left)
        score = (1 - left) * math.sqrt(samples)
        best = max(best, (-0.5 * math.log(left), score, error))
    return best
