"""Every component as data; imports penchant and attrs only."""

from typing import Any

import attrs
import penchant


@attrs.frozen
class Perceptron(penchant.Architecture):
    """One hidden layer of tanh units."""

    name = "perceptron"
    target = "penchant_example.architectures.perceptron:build"

    width: int = penchant.option(16, "hidden units", at_least=1)


@attrs.frozen
class TwoBlobs(penchant.Dataset):
    """Two round clouds of points in the plane."""

    name = "two-blobs"
    target = "penchant_example.datasets.two_blobs:load"

    distance: float = penchant.option(4.0, "between the centres", above=0)


# A role that this plugin defines: other plugins may register estimators for it.
@penchant.Role
def spread(options: Any, context: penchant.Context, values: Any) -> Any:
    """Spread of numbers: a value and its standard error."""


@attrs.frozen
class StandardDeviation(penchant.Estimator):
    """Standard deviation, with its standard error under normality."""

    name = "standard-deviation"
    role = spread
    target = "penchant_example.estimators.standard_deviation:estimate"


@attrs.frozen
class OutputSpread(penchant.Probe):
    """Standard deviation of the mean output over fresh networks."""

    name = "output-spread"
    example = "penchant probe output-spread -a perceptron -d two-blobs"
    question = "How much do the outputs of fresh networks differ?"
    target = "penchant_example.output_spread.probe:run"
    figures = "penchant_example.output_spread.figures:draw"
    needs = ("architecture", "dataset")
    accepts = ("sequences",)
    roles = {"spread": "standard-deviation"}
    quantities = {"spread": "standard deviation of the mean output over networks"}
    arrays = {"means": "mean output of every network"}
    presets = {"quick": {"networks": 64}}

    networks: int = penchant.option(64, "fresh networks", at_least=2)
