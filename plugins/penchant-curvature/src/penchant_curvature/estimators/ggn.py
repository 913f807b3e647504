"""The estimator `ggn`: Gauss-Newton itself, by the gradients of all samples and classes."""

import penchant
from torch import nn

from penchant_curvature.declarations import GaussNewton
from penchant_curvature.estimators.measured_curvature import Data, by_columns
from penchant_curvature.shared.layer_operators import LayerOperators


def estimate(
    options: GaussNewton, context: penchant.Context, network: nn.Module, data: Data
) -> LayerOperators:
    """Estimator of the role `curvature`."""
    return by_columns(options, context, network, data, columns="gauss-newton")
