"""Mutual information neural estimation: the estimator `mine`."""

from __future__ import annotations

import penchant
from penchant_numerics.answers import Information
from torch import Tensor

from penchant_mine.declarations.estimators import Mine
from penchant_mine.estimators.neural import trained_estimate
from penchant_mine.numerics.information.bounds import DonskerVaradhan


def estimate(
    options: Mine,
    context: penchant.Context,
    x: Tensor,
    z: Tensor,
) -> Information:
    """Target of the estimator `mine`."""
    return trained_estimate(options, context, x, z, DonskerVaradhan(options.ema))
