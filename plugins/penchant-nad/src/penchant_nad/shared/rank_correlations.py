"""Spearman's correlation as a quantity, where there is one."""

from __future__ import annotations

import numpy as np
import penchant
from penchant_numerics.statistics import rank_correlation, varies


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
