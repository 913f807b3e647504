"""Curvature of a loss in the parameters: Gauss-Newton matrices, Hessians, losses."""

from penchant_numerics.curvature.gauss_newton import (
    LOSSES,
    PASS_SHARE,
    GaussNewton,
    counted_samples,
    loss_factor_times,
)
from penchant_numerics.curvature.gauss_newton_gram import gauss_newton_spectrum
from penchant_numerics.curvature.hessian import Hessian
from penchant_numerics.curvature.losses import (
    OwnGaussNewton,
    check_labels,
    convex_hessians,
    loss_function,
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
    "DRAWS",
    "GaussNewton",
    "Hessian",
    "LOSSES",
    "OwnGaussNewton",
    "PASS_SHARE",
    "check_labels",
    "convex_columns",
    "convex_hessians",
    "counted_samples",
    "empirical_columns",
    "gauss_newton_columns",
    "gauss_newton_spectrum",
    "loss_factor_times",
    "loss_function",
    "loss_gradients",
    "numbers_of",
]
