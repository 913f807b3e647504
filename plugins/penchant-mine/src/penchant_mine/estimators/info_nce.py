"""The contrastive bound: the estimator `info-nce`."""

from __future__ import annotations

import penchant
from penchant_numerics.answers import Information
from torch import Tensor

from penchant_mine.declarations.estimators import InfoNceEstimator
from penchant_mine.estimators.neural import trained_estimate
from penchant_mine.numerics.information.bounds import InfoNce


def estimate(
    options: InfoNceEstimator,
    context: penchant.Context,
    x: Tensor,
    z: Tensor,
) -> Information:
    """Target of the estimator `info-nce`."""
    return trained_estimate(options, context, x, z, InfoNce())
