"""Geometric invariance: an architecture's average geometry, its evolution, and what it predicts.

Reference: Movahedi, Orvieto, Moosavi-Dezfooli, Geometric Inductive Biases of Deep Networks: The
Role of Data and Architecture.
"""

import penchant

from penchant_gih.declarations import datasets as _datasets
from penchant_gih.declarations import estimators as _estimators
from penchant_gih.declarations import geometry, preference


@penchant.hookimpl
def penchant_datasets() -> list[type[penchant.Dataset]]:
    """Datasets this plugin offers."""
    return [_datasets.TwoCircles, _datasets.LinearAndRing]


@penchant.hookimpl
def penchant_estimators() -> list[type[penchant.Estimator]]:
    """Estimators this plugin offers."""
    return [_estimators.AverageGeometry]


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    """Probes this plugin offers."""
    return [
        geometry.AverageGeometry,
        geometry.GeometryEvolution,
        geometry.GeometryTraining,
        geometry.InputCurvature,
        preference.DirectionGeneralization,
        preference.FeaturePreference,
        preference.FeatureElimination,
        preference.SamplePruning,
        preference.DecisionPlane,
    ]
