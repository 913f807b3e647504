"""The estimator `cfac`: errors independent of inputs in each class."""

import penchant
from penchant_numerics.data import kind_of
from torch import nn

from penchant_curvature.declarations import Cfac
from penchant_curvature.estimators.measured_curvature import Data, by_factors
from penchant_curvature.shared.layer_operators import LayerOperators


def estimate(
    options: Cfac, context: penchant.Context, network: nn.Module, data: Data
) -> LayerOperators:
    """Estimator of the role `curvature`."""
    labels = data[1]
    if kind_of(labels).by_position:
        raise penchant.Error(
            "cfac needs one class per sample, found sequences with one per position"
        )
    if labels is None or labels.is_floating_point():
        kind = "none" if labels is None else labels.dtype
        raise penchant.Error(f"cfac needs labels that are classes, found {kind}")
    return by_factors(options, context, network, data, groups=labels, by_class=True)
