"""What estimators of the shared roles are given and return."""

from penchant_numerics.roles.chosen_directions import chosen_indices, refuse_zero
from penchant_numerics.roles.estimates import (
    Directions,
    Information,
    LayerCurvature,
    spectra_without_each,
)
from penchant_numerics.roles.estimator_context import EstimatorContext

__all__ = [
    "Directions",
    "EstimatorContext",
    "Information",
    "LayerCurvature",
    "chosen_indices",
    "refuse_zero",
    "spectra_without_each",
]
