"""The mean of several rank correlations over the same positions, and its permutation null.

Repetitions that order the same positions alike are not independent evidence of an order: of three
positions they agree by chance in one case of six, however many repetitions there are. So the null
permutes the positions, the same way in all repetitions.
"""

from typing import NamedTuple

import numpy as np
import torch
from penchant_numerics.statistics import LEVEL
from torch import Generator

_TIMES = 20  # as many permutations, where the first could make a correlation significant


class MeanRankCorrelation(NamedTuple):
    """Spearman's rank correlation of each repetition, and means over them of permuted positions."""

    values: np.ndarray  # (repetitions,)
    null_draws: np.ndarray  # (permutations,)

    def null(self) -> dict[str, float]:
        """The null of the mean, which is 0 over all orders: its spread and a two-sided p-value."""
        as_far = _as_far(self.values, self.null_draws)
        return {
            "null": 0.0,
            "null_spread": float(np.sqrt(np.mean(self.null_draws**2))),
            "p": (1 + as_far) / (1 + len(self.null_draws)),
        }


def mean_rank_correlation(
    x: np.ndarray, y: np.ndarray, *, generator: Generator, permutations: int = 999
) -> MeanRankCorrelation:
    """Rank correlations over positions, repetition by repetition.

    Args:
        x: Numbers (repetitions, positions), no repetition constant.
        y: Numbers (repetitions, positions), no repetition constant.
        generator: A generator on the CPU.
        permutations: Draws of the null; twenty times as many where these could make it significant.

    Returns:
        Correlations and the draws, for `Quantity.of(found.values, null=found.null(), over=...)`.

    >>> positions = np.array([[1.0, 2.0, 3.0]])
    >>> generator = torch.Generator("cpu").manual_seed(0)
    >>> mean_rank_correlation(positions, 10 - positions, generator=generator).values.tolist()
    [-1.0]
    """
    first, second = _unit_ranks(x), _unit_ranks(y)
    values = (first * second).sum(1)

    # the mean over repetitions of sum_i x_i y_order(i), from the mean of all products
    products = first.T @ second / len(first)  # (positions, positions)
    values = values.round(12)
    draws = _permuted(products, permutations, generator)
    if (1 + _as_far(values, draws)) / (1 + permutations) <= LEVEL:
        more = [_permuted(products, permutations, generator) for _ in range(_TIMES - 1)]
        draws = np.concatenate([draws, *more])
    return MeanRankCorrelation(values, draws)


def _permuted(products: np.ndarray, permutations: int, generator: Generator) -> np.ndarray:
    """Mean correlations of random orders of the positions."""
    positions = np.arange(len(products))
    keys = torch.rand(permutations, len(products), generator=generator, device="cpu")
    orders = keys.argsort(1).numpy()
    draws: np.ndarray = products[positions, orders].sum(1)
    return draws


def _as_far(values: np.ndarray, draws: np.ndarray) -> int:
    """How many orders are as far from none as the one that was seen, to rounding."""
    return int((np.abs(draws) >= abs(values.mean()) - 1e-12).sum())


def _unit_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks of every row around their mean, of length 1; equal values share their mean rank.

    Values that are equal to nine digits are equal: rounding decides no order.
    """
    from scipy import stats  # here, because it takes a second to load

    largest = np.abs(values).max(1, keepdims=True)
    ranks = stats.rankdata((values / np.where(largest > 0, largest, 1.0)).round(9), axis=1)
    around = ranks - ranks.mean(1, keepdims=True)
    unit: np.ndarray = around / np.linalg.norm(around, axis=1, keepdims=True)
    return unit
