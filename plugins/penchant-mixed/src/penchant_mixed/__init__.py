"""Directions from the mixed second derivative d^2 f / d theta d x.

Reference: Neural Anisotropy Directions, supplement, algorithm 2.
"""

import penchant

from penchant_mixed.declarations import MixedDerivative


@penchant.hookimpl
def penchant_estimators() -> list[type[penchant.Estimator]]:
    """Estimators this plugin offers."""
    return [MixedDerivative]
