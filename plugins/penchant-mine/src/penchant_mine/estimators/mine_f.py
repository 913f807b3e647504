"""The f-divergence bound: the estimator `mine-f`."""

from __future__ import annotations

import penchant
from penchant_numerics.answers import Information
from torch import Tensor

from penchant_mine.declarations.estimators import MineF
from penchant_mine.estimators.neural import trained_estimate
from penchant_mine.numerics.information.bounds import FDivergence


def estimate(
    options: MineF,
    context: penchant.Context,
    x: Tensor,
    z: Tensor,
) -> Information:
    """Target of the estimator `mine-f`."""
    return trained_estimate(options, context, x, z, FDivergence())
