"""Information of binned variables: the estimator `binned`."""

import math

import penchant
from penchant_numerics.roles import Information
from torch import Tensor

from penchant_mine.declarations.estimators import Binned
from penchant_mine.estimators.prepared import no_information, prepared
from penchant_mine.estimators.second_opinions import clear_second_opinion
from penchant_mine.estimators.untrained import FEWEST, answer, shuffled
from penchant_mine.shared.information.binning import binned_information, cells
from penchant_mine.shared.information.pairs import Pairs

SAMPLES_A_CELL = 5  # fewer, and the correction for counting does not hold
HIDDEN = 0.5  # of what twice as many bins showed, that still finer bins may show


def estimate(options: Binned, context: penchant.Context, x: Tensor, z: Tensor) -> Information:
    """Target of the estimator `binned`.

    The standard error has a term for what is finer than bins: half of what these bins show beyond
    half as many, or half as many and one, whichever is less: an odd number of bins has one in the
    middle, where a sign is lost.
    """
    pairs = prepared(options, x, z, at_least=FEWEST, scaling="standard")
    if pairs.empty:
        return no_information(pairs)
    samples = len(pairs.x)
    # The cube root keeps the error of counting and the width of bins in balance.
    bins = options.bins or max(2, round(samples ** (1 / 3)))
    in_x = cells(pairs.x, bins)
    in_z = cells(pairs.z, bins)
    contributions, correction, joint = binned_information(in_x, in_z)
    value = float(contributions.mean()) - correction
    sampling = float(contributions.std()) / math.sqrt(samples)

    # What coarser bins do not show says how much finer ones may.
    half = max(2, bins // 2)
    coarse = min(_value(pairs, half), _value(pairs, half + 1))
    hidden = HIDDEN * max(0.0, value - coarse)
    bias, texts = clear_second_opinion(pairs, value, sampling, context.generator("second opinions"))

    def with_order(order: Tensor) -> float:
        information, offset, _ = binned_information(in_x, in_z[order])
        return float(information.mean()) - offset

    nulls = shuffled(with_order, pairs, options.shuffles, context.generator("binned"))
    return answer(
        pairs,
        value,
        math.hypot(sampling, hidden, bias),
        nulls,
        warnings=[*_doubts(joint, samples, value - sampling, coarse), *texts],
        over="samples, what half as many bins do not show, and what other methods find more",
        count=samples,
    )


def _value(pairs: Pairs, bins: int) -> float:
    in_x = cells(pairs.x, bins)
    in_z = cells(pairs.z, bins)
    contributions, correction, _ = binned_information(in_x, in_z)
    return float(contributions.mean()) - correction


def _doubts(joint: int, samples: int, at_least: float, coarse: float) -> list[str]:
    """Too many cells, or too few."""
    if joint > samples / SAMPLES_A_CELL:
        return [
            f"{joint} of the cells are filled by {samples} samples, too few a cell: take fewer "
            "bins or dimensions"
        ]
    if at_least > coarse:
        return [
            f"half as many bins give {coarse:.3g}: what is finer than bins is missing from the "
            "value"
        ]
    return []
