"""An estimator's error where the truth is known: normal pairs of the same sizes.

Which pairs these are is found by the secant method, from pairs with as much information as the
value says.
"""

import math

import penchant
from penchant_numerics.roles import Information
from torch import Tensor

from penchant_mine.shared.information.families import Setting, correlated
from penchant_mine.shared.information.known_information import correlation_for

LARGEST_SHARE = 0.95  # of the log of the number of pairs: they can show no more information
LEAST_SLOPE = 0.05  # of the estimate against the information: what rises less is taken as flat
TURNS = 5  # estimates for normal pairs, at most


def calibrated_bias(
    context: penchant.Context,
    number: int,
    x: Tensor,
    z: Tensor,
    value: float,
    value_stderr: float | None,
) -> dict[str, float | None]:
    """The error of estimator `number` for normal pairs for which it gives about this value.

    Args:
        context: The probe's context.
        number: Which of its estimators of mutual information.
        x: Samples (pairs, ...), for their number and sizes.
        z: Samples (pairs, ...).
        value: What the estimator gave for them.
        value_stderr: Its standard error, which decides at what information the bias is taken.

    Returns:
        `bias` and `bias-stderr`, which is None for an estimator that states no error.
    """
    # Where the value is beyond what this number of pairs can show, calibration ends there.
    most = LARGEST_SHARE * math.log(len(x))
    target = min(max(0.0, value), most)
    # Information of normal pairs, and what the estimator makes of it.
    known: list[tuple[float, float]] = []
    stderr: float | None = 0.0
    for turn in range(TURNS):
        estimate = _on_normal_pairs(context, number, turn, target, x, z)
        stderr = estimate.stderr
        known.append((target, float(estimate.value)))
        # The next guess, kept within what makes sense.
        following = min(max(0.0, _secant(known, value)), most)
        if abs(estimate.value - value) <= 2 * (stderr or 0.0) or following == target:
            break
        target = following
    else:
        context.warn(
            f"no normal pairs were found for which the estimator gives {value:.3g}; its bias is "
            f"that for {known[-1][1]:.3g}"
        )
    information, estimated = known[-1]
    bias_stderr = None
    if stderr is not None and value_stderr is not None:
        bias_stderr = math.hypot(stderr, value_stderr) / _slope(known)
    return {"bias": estimated - information, "bias-stderr": bias_stderr}


def _on_normal_pairs(
    context: penchant.Context, number: int, turn: int, information: float, x: Tensor, z: Tensor
) -> Information:
    """An estimate for normal pairs with this much information, as many and as large as x and z."""
    x_size, z_size = math.prod(x.shape[1:]), math.prod(z.shape[1:])
    rho = correlation_for(information, min(x_size, z_size))
    generator = context.generator("calibration", turn)
    sampled = correlated(Setting(x_size, z_size), rho, len(x), generator)
    pairs = [each.to(x.device, x.dtype) for each in sampled]
    estimator = context.scope("calibration", turn).estimators("mutual-information")[number]
    before = list(context.warnings)
    estimate: Information = estimator(*pairs)
    # Warnings about normal pairs are not warnings about the samples.
    context.warnings[:] = before
    return estimate


def _slope(known: list[tuple[float, float]]) -> float:
    """How much the estimate rises with the information, between the first and the last pairs.

    At most 1: an estimator that hardly rises says little about which pairs have its value.
    """
    (first, estimate_first), (last, estimate_last) = known[0], known[-1]
    if first == last:
        return 1.0
    rise = (estimate_last - estimate_first) / (last - first)
    return min(1.0, max(LEAST_SLOPE, rise))


def _secant(known: list[tuple[float, float]], value: float) -> float:
    """Where the line through the last two points reaches this value.

    One of slope 1 where there is one point, or they go down.
    """
    here, estimate = known[-1]
    slope = 1.0
    if len(known) > 1:
        before, estimate_before = known[-2]
        rise = (estimate - estimate_before) / (here - before)
        if rise > LEAST_SLOPE:
            slope = rise
    missing = value - estimate
    return here + missing / slope
