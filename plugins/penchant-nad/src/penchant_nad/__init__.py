"""Which directions of its input a network prefers before it has seen data, and what follows.

Reference: Ortiz-Jimenez, Modas, Moosavi-Dezfooli and Frossard, Neural Anisotropy Directions,
NeurIPS 2020.
"""

import penchant

from penchant_nad.declarations import directions, learning, theory


@penchant.hookimpl
def penchant_estimators() -> list[type[penchant.Estimator]]:
    """Estimators this plugin offers."""
    return [directions.GradientCovariance]


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    """Probes this plugin offers."""
    return [
        directions.Nad,
        learning.DirectionalAccuracy,
        directions.NadAgreement,
        theory.PoolingTheory,
        theory.Dipole,
        learning.PoisonedAccuracy,
        learning.FlippedAccuracy,
    ]
