"""Spearman's correlation as a quantity, where there is one.

The largest of many deviations, each in its own standard errors, and what chance makes of it.

The largest of n scores is far from 0 even where every score is standard normal. Its distribution
there is simulated, and so is its standard error: the scores are what they are, give or take their
own standard deviations. These are one where a score was divided by its true error, and larger where
it was divided by the error that a wrong theory expects.
"""

import numpy as np
import penchant
import torch
from penchant_numerics.statistics import Null, null_of, rank_correlation, varies
from torch import Generator, Tensor


def rank_correlation_of(
    x: np.ndarray, y: np.ndarray, context: penchant.Context, *, over: str
) -> dict[str, penchant.Quantity]:
    """The quantity `rank-correlation` of pairs; none for fewer than three, or without ranks.

    Args:
        x: Numbers (n,).
        y: Numbers (n,).
        context: Its generator draws the permutations of the null.
        over: What the pairs are.
    """
    if len(x) < 3 or not varies(x) or not varies(y):
        return {}
    # The null permutes one side.
    generator = context.generator("permutations")
    correlation = rank_correlation(x, y, generator=generator)
    return {"rank-correlation": penchant.Quantity(**correlation.fields(), over=over)}


DRAWS = 2000


class Deviation(Null):
    """The fields of a quantity that is the largest of some scores."""

    value: float
    stderr: float


def largest_deviation(
    scores: np.ndarray, *, generator: Generator, two_sided: bool, spreads: np.ndarray | float = 1.0
) -> Deviation:
    """The fields of a quantity that is the largest of some scores.

    Args:
        scores: Deviations (n,) in standard errors.
        generator: A generator on the CPU.
        two_sided: Whether deviations to both sides count; else those upwards only.
        spreads: Standard deviations of the scores (n,), or of all of them.

    Returns:
        `value`, its `stderr`, and `null`, `null_spread`, `null_stderr`, `p`: the same of as many
        independent standard normal numbers.
    """
    own = torch.as_tensor(scores, device="cpu", dtype=torch.float64)
    noise = torch.randn(DRAWS, len(own), generator=generator, device="cpu", dtype=torch.float64)
    # What drawing everything again would do to the scores, and to scores without an effect.
    again = _largest(own + noise * torch.as_tensor(spreads, device="cpu"), two_sided)
    value = float(_largest(own, two_sided))
    null = null_of(_largest(noise, two_sided), value=value)
    return {"value": value, "stderr": float(again.std()), **null}


def _largest(scores: Tensor, two_sided: bool) -> Tensor:
    sizes = scores.abs() if two_sided else scores
    return sizes.amax(-1)
