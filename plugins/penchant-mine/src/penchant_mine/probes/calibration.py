"""An estimator's error where the truth is known: normal pairs of the same sizes.

Which pairs these are is found by the secant method, from pairs with as much information as the
value says.
"""

from __future__ import annotations

import math

import penchant
from torch import Tensor

from penchant_mine.numerics.information.families import Setting, correlated
from penchant_mine.numerics.information.known_information import correlation_for

LARGEST_SHARE = 0.95  # of the log of the number of pairs: they can show no more information
TURNS = 5  # estimates for normal pairs, at most


def calibrated_bias(
    context: penchant.Context,
    number: int,
    x: Tensor,
    z: Tensor,
    value: float,
) -> dict[str, float]:
    """The error of estimator `number` for normal pairs for which it gives about this value.

    Args:
        context: The probe's context.
        number: Which of its estimators of mutual information.
        x: Samples (pairs, ...), for their number and sizes.
        z: Samples (pairs, ...).
        value: What the estimator gave for them.

    Returns:
        `bias` and `bias-stderr`.
    """
    sizes = [math.prod(each.shape[1:]) for each in (x, z)]
    # Where the value is beyond what so many pairs can show, calibration ends there.
    most = LARGEST_SHARE * math.log(len(x))
    wanted = min(max(0.0, value), most)
    # Information of normal pairs, and what the estimator makes of it.
    known: list[tuple[float, float]] = []
    stderr = None
    for turn in range(TURNS):
        rho = correlation_for(wanted, min(sizes))
        generator = context.generator("calibration", turn)
        # Pairs of as many samples and dimensions, with known information.
        drawn = correlated(Setting(*sizes), rho, len(x), generator)
        estimator = context.scope("calibration", turn).estimators("mutual-information")[number]
        estimate = estimator(*(each.to(x.device, x.dtype) for each in drawn))
        stderr = estimate.stderr
        known.append((wanted, float(estimate.value)))
        # The next guess, kept within what makes sense.
        following = min(max(0.0, _secant(known, value)), most)
        if abs(estimate.value - value) <= 2 * estimate.stderr or following == wanted:
            break
        wanted = following
    else:
        context.warn(
            f"no normal pairs were found for which the estimator gives {value:.3g}; its bias is "
            f"that for {known[-1][1]:.3g}"
        )
    information, found = known[-1]
    return {"bias": found - information, "bias-stderr": stderr}


def _secant(known: list[tuple[float, float]], value: float) -> float:
    """Where the line through the last two points reaches this value.

    One of slope 1 where there is one point, or they go down.
    """
    here, found = known[-1]
    slope = 1.0
    if len(known) > 1:
        before, found_before = known[-2]
        rise = (found - found_before) / (here - before)
        slope = rise if rise > 0.05 else 1.0
    return here + (value - found) / slope
