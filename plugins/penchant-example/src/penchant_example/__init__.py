"""A plugin with one component of each kind; this module is all that discovery imports."""

import attrs
import penchant


@attrs.frozen
class Perceptron(penchant.Architecture):
    """One hidden layer of tanh units."""

    name, target = "perceptron", "penchant_example.probe:build"
    width: int = penchant.option(16, "hidden units", at_least=1)


@attrs.frozen
class TwoBlobs(penchant.Dataset):
    """Two round clouds of points in the plane."""

    name, target = "two-blobs", "penchant_example.probe:load"
    distance: float = penchant.option(4.0, "between the centres", above=0)


@penchant.Role
def spread(options, context, values):
    """How far numbers are from each other: a number and its standard error."""


@attrs.frozen
class StandardDeviation(penchant.Estimator):
    """Standard deviation, with its standard error under normality."""

    name, role, target = "standard-deviation", spread, "penchant_example.probe:standard_deviation"


@attrs.frozen
class OutputSpread(penchant.Probe):
    """How differently fresh networks answer: the spread of their mean output over the test samples."""

    name, target, needs = "output-spread", "penchant_example.probe:run", ("architecture", "dataset")
    roles, presets = {"spread": "standard-deviation"}, {"quick": {"networks": 64}}
    quantities = {"spread": "standard deviation of the mean output over networks"}
    arrays = {"means": "mean output of every network"}
    networks: int = penchant.option(64, "networks drawn", at_least=2)


@penchant.hookimpl
def penchant_architectures():
    return [Perceptron]


@penchant.hookimpl
def penchant_datasets():
    return [TwoBlobs]


@penchant.hookimpl
def penchant_estimators():
    return [StandardDeviation]


@penchant.hookimpl
def penchant_probes():
    return [OutputSpread]
