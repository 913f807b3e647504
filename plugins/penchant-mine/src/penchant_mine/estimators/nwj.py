"""The f-divergence bound with several marginal pairs a sample: the estimator `nwj`."""

from __future__ import annotations

import penchant
from penchant_numerics.answers import Information
from torch import Tensor

from penchant_mine.declarations.estimators import Nwj
from penchant_mine.estimators.neural import trained_estimate
from penchant_mine.numerics.information.bounds import FDivergence


def estimate(
    options: Nwj,
    context: penchant.Context,
    x: Tensor,
    z: Tensor,
) -> Information:
    """Target of the estimator `nwj`."""
    return trained_estimate(options, context, x, z, FDivergence())
