"""The estimator `empirical-fisher`: the second moment of gradients of the loss at the labels."""

import penchant
from torch import nn

from penchant_curvature.declarations import EmpiricalFisher
from penchant_curvature.estimators.measured_curvature import Data, by_columns
from penchant_curvature.shared.layer_operators import LayerOperators


def estimate(
    options: EmpiricalFisher, context: penchant.Context, network: nn.Module, data: Data
) -> LayerOperators:
    """Estimator of the role `curvature`."""
    if data[1] is None:
        raise penchant.Error("empirical-fisher needs labels, found none")
    return by_columns(options, context, network, data, columns="empirical")
