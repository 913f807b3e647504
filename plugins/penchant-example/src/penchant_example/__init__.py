"""A plugin with one component of each kind, to copy from; this module is all discovery imports."""

import penchant

from penchant_example import declarations


@penchant.hookimpl
def penchant_architectures():
    """Architectures this plugin offers."""
    return [declarations.Perceptron]


@penchant.hookimpl
def penchant_datasets():
    """Datasets this plugin offers."""
    return [declarations.TwoBlobs]


@penchant.hookimpl
def penchant_estimators():
    """Estimators this plugin offers."""
    return [declarations.StandardDeviation]


@penchant.hookimpl
def penchant_probes():
    """Probes this plugin offers."""
    return [declarations.OutputSpread]
