"""Have statistics networks learnt how the lengths of x and z go together?

Networks find correlations first, and may stop before they have found that long x come with long z.
Neither more steps nor more samples show that. But any score gives a lower bound, so the product of
both lengths is added to the scores: where that raises the bound, the networks had missed it.
"""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from penchant_mine.shared.information.bounds import Bound
from penchant_mine.shared.information.pairs import normal_scores

FACTORS = [step / 10 for step in range(-6, 7) if step]  # by which the product is added


def gain_of_lengths(
    bound: Bound,
    joint: Tensor,
    marginal: Tensor,
    lengths: tuple[Tensor, Tensor],
    shifts: Sequence[int],
) -> tuple[float, float]:
    """How much the product of lengths adds to the bound, at the best of a few factors.

    Args:
        bound: The bound.
        joint: Scores (networks, samples) of pairs.
        marginal: Scores (networks, shifts, samples) of pairs whose z was moved on.
        lengths: Lengths of x and of z, each (networks, samples).
        shifts: By how much z was moved on.

    Returns:
        The gain, mean over networks, and its standard error over samples.
    """
    x, z = (normal_scores(each.T).T.to(joint.dtype) for each in lengths)
    of_joint = x * z
    of_marginal = torch.stack([x * z.roll(-shift, 1) for shift in shifts], 1)
    others = ((joint + by * of_joint, marginal + by * of_marginal) for by in FACTORS)
    return best_gain(bound, (joint, marginal), others, shifts)


def best_gain(
    bound: Bound,
    scores: tuple[Tensor, Tensor],
    others: Iterable[tuple[Tensor, Tensor]],
    shifts: Sequence[int],
) -> tuple[float, float]:
    """How much other scores of the same pairs raise the bound, at best.

    Args:
        bound: The bound.
        scores: Scores (networks, samples) of pairs and (networks, shifts, samples) of others.
        others: Scores that are tried in their place.
        shifts: By how much z was moved on.

    Returns:
        The gain, mean over networks, and its standard error over samples; 0 where none is better.
    """
    before = bound.contributions(*scores, shifts)
    value = bound.value(*scores)
    best = (0.0, 0.0)
    for tried in others:
        gain = float((bound.value(*tried) - value).mean())
        if gain > best[0]:
            difference = bound.contributions(*tried, shifts) - before
            variance = difference.var(1) / difference.shape[1]
            best = gain, math.sqrt(float(variance.mean()) / len(variance))
    return best
