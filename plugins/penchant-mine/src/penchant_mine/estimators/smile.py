"""Donsker-Varadhan with clipped density ratios: the estimator `smile`."""

from __future__ import annotations

import penchant
from penchant_numerics.answers import Information
from torch import Tensor

from penchant_mine.declarations.estimators import SmileEstimator
from penchant_mine.estimators.neural import trained_estimate
from penchant_mine.numerics.information.bounds import Smile


def estimate(
    options: SmileEstimator,
    context: penchant.Context,
    x: Tensor,
    z: Tensor,
) -> Information:
    """Target of the estimator `smile`."""
    return trained_estimate(options, context, x, z, Smile(options.clip))
