"""Geometric invariance: the average geometry of an architecture, its evolution, and what it predicts.

Reference: Movahedi, Orvieto, Moosavi-Dezfooli, Geometric Inductive Biases of Deep Networks: The Role of Data and Architecture.
"""

import penchant

from penchant_gih.declared_datasets import LinearAndRing, TwoCircles
from penchant_gih.declared_geometry import (
    AverageGeometry,
    GeometryEvolution,
    GeometryTraining,
    InputCurvature,
)
from penchant_gih.declared_learning import (
    DecisionPlane,
    DirectionGeneralization,
    FeatureElimination,
    FeaturePreference,
    SamplePruning,
)


@penchant.hookimpl
def penchant_datasets() -> list[type[penchant.Dataset]]:
    return [TwoCircles, LinearAndRing]


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    return [
        AverageGeometry,
        GeometryEvolution,
        GeometryTraining,
        InputCurvature,
        DirectionGeneralization,
        FeaturePreference,
        FeatureElimination,
        SamplePruning,
        DecisionPlane,
    ]
