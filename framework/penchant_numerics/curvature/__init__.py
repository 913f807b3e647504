"""Curvature of a loss in the parameters: Gauss-Newton matrices, Hessians, losses."""

from penchant_numerics.curvature.convex_losses import OwnGaussNewton, convex_hessians
from penchant_numerics.curvature.gauss_newton import GaussNewton
from penchant_numerics.curvature.gauss_newton_gram import gauss_newton_spectrum
from penchant_numerics.curvature.hessian import Hessian
from penchant_numerics.curvature.loss_curvature import PASS_SHARE, LossCurvature, counted_samples
from penchant_numerics.curvature.losses import (
    LOSSES,
    ClosedForm,
    Loss,
    check_labels,
    closed_form,
    conventions,
    has_closed_form,
    loss_function,
    loss_named,
)
from penchant_numerics.curvature.sequence_columns import (
    DRAWS,
    convex_columns,
    empirical_columns,
    gauss_newton_columns,
    loss_gradients,
    numbers_of,
)

__all__ = [
    "ClosedForm",
    "DRAWS",
    "GaussNewton",
    "Hessian",
    "LOSSES",
    "Loss",
    "LossCurvature",
    "OwnGaussNewton",
    "PASS_SHARE",
    "check_labels",
    "closed_form",
    "conventions",
    "convex_columns",
    "convex_hessians",
    "counted_samples",
    "empirical_columns",
    "gauss_newton_columns",
    "gauss_newton_spectrum",
    "has_closed_form",
    "loss_function",
    "loss_named",
    "loss_gradients",
    "numbers_of",
]
