"""A plugin with one component of each kind, to copy from; this module is all discovery imports."""

import penchant

from penchant_example import declarations


@penchant.hookimpl
def penchant_architectures() -> list[type[penchant.Architecture]]:
    """Architectures this plugin offers."""
    return [declarations.Perceptron]


@penchant.hookimpl
def penchant_datasets() -> list[type[penchant.Dataset]]:
    """Datasets this plugin offers."""
    return [declarations.TwoBlobs]


@penchant.hookimpl
def penchant_estimators() -> list[type[penchant.Estimator]]:
    """Estimators this plugin offers."""
    return [declarations.StandardDeviation]


@penchant.hookimpl
def penchant_probes() -> list[type[penchant.Probe]]:
    """Probes this plugin offers."""
    return [declarations.OutputSpread]
