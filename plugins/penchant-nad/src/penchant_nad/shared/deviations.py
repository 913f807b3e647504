"""The largest of many deviations, each in its own standard errors, and what chance makes of it.

The largest of n scores is far from 0 even where every score is standard normal. Its distribution
there is simulated, and so is its standard error: the scores are what they are, give or take their
own standard deviations. These are one where a score was divided by its true error, and larger where
it was divided by the error that a wrong theory expects.
"""

from __future__ import annotations

import numpy as np
import torch
from penchant_numerics.statistics import Null, null_of
from torch import Generator, Tensor

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
