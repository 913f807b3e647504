"""The probe `information-bottleneck`: classifiers whose representation is kept small."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.ensembles import constructed
from penchant_numerics.statistics import accuracy, mean_and_stderr
from torch import Generator, Tensor

from penchant_mine.declarations.generative import InformationBottleneck
from penchant_mine.numerics.generative.bottleneck import (
    ROWS,
    BottleneckRecipe,
    Classifier,
    NoisyStatistics,
    Row,
    error_rate,
    information_from_density,
    information_upper_bound,
    train_row,
)
from penchant_mine.numerics.recipes import recipe_from

SWEPT = "mine-gaussian"
# What is measured of a representation, with the name of its standard error.
INFORMATION = {"upper": "upper-stderr", "density": "density-stderr", "lower": "lower-stderr"}
NAMES = {
    "upper": "information",
    "density": "information-density",
    "lower": "information-lower",
}
SWEEPS = {
    "upper": "information-by-beta",
    "density": "density-by-beta",
    "lower": "lower-by-beta",
}

Rows = list[dict[str, Any]]  # what shards found, a row a training


def run(options: InformationBottleneck, context: penchant.Context) -> penchant.Result:
    """Train every row, and the Gaussian encoder for every beta: one shard a training."""
    # Rows first, then the sweep over beta.
    cells = [{"row": name, "beta": options.beta_mine} for name in options.rows]
    cells += [{"row": SWEPT, "beta": beta} for beta in options.betas or ()]
    items = []
    for number, cell in enumerate(cells):
        for training in range(options.trainings):
            items.append({**cell, "cell": number, "training": training})
    found = list(context.map(measure, items))
    # Trainings of one cell stand together.
    groups = []
    for start in range(0, len(found), options.trainings):
        end = start + options.trainings
        groups.append(found[start:end])
    labels = context.data.test.labels
    quantities: dict[str, penchant.Quantity] = {}
    for name, rows in zip(options.rows, groups):
        quantities |= _quantities(name, rows, labels)
    arrays = {}
    if options.betas:
        swept = groups[len(options.rows) :]
        arrays = _sweep(options.betas, swept, len(labels))
    context.conventions["information"] = (
        "I(X; Z) of test inputs, seen by neither training nor stopping of the classifier, and "
        "their representation; density: over these inputs alone, at most the log of their number"
    )
    context.conventions["scale"] = (
        f"{len(context.data.train.labels)} training samples, {options.epochs} epochs, widths "
        f"{options.widths}"
    )
    return penchant.Result(quantities, arrays)


def measure(context: penchant.Context, item: dict[str, Any]) -> dict[str, Any]:
    """Train one row once; its test error and what its representation knows of test inputs."""
    options: InformationBottleneck = context.options
    data = context.data
    row = ROWS[item["row"]]
    training = item["training"]
    # Pixels in [-1, 1], as published.
    x = 2 * data.train.inputs.flatten(1) - 1
    test = 2 * data.test.inputs.flatten(1) - 1
    recipe = recipe_from(BottleneckRecipe, options, beta_mine=item["beta"])
    generator = context.generator("training", training)
    seed = generator.initial_seed()
    # The statistics network has the next seed, whether or not it is used.
    network = _classifier(context, row, seed)
    informant = None
    if row.regulariser == "mine" and item["beta"] > 0:
        informant = _statistics(context, seed + 1)
    train_row(network, informant, x, data.train.labels, recipe, generator)
    # Judging has a stream of its own, so that more draws change no training.
    judged = context.generator("judged", training)
    error = error_rate(network, test, data.test.labels, recipe, options.code_draws, judged)
    scope = context.scope("information", item["cell"], training)
    known = _information(scope, network, test, recipe, judged)
    return {"error": error, **known}


def _classifier(
    context: penchant.Context,
    row: Row,
    seed: int,
) -> Classifier:
    options: InformationBottleneck = context.options
    data = context.data
    size = math.prod(data.shape)

    def make() -> Classifier:
        return Classifier(
            row,
            size,
            options.widths,
            options.code,
            data.classes,
            propagated=options.propagated_inputs,
        )

    return constructed(make, seed).to(context.device)


def _statistics(context: penchant.Context, seed: int) -> NoisyStatistics:
    options: InformationBottleneck = context.options
    size = math.prod(context.data.shape) + options.code

    def make() -> NoisyStatistics:
        return NoisyStatistics(size, options.statistics_width)

    return constructed(make, seed).to(context.device)


def _information(
    context: penchant.Context,
    classifier: Classifier,
    test: Tensor,
    recipe: BottleneckRecipe,
    generator: Generator,
) -> dict[str, Any]:
    """Bounds for every noisy encoder: from below by the estimator, from above by its density."""
    row = classifier.row
    if row.encoder == "plain":
        return {}
    with torch.no_grad():
        z, mean, sigma = classifier.encode(test, recipe, generator)
    # From below: what a fresh statistics network finds.
    estimate = context.estimator("mutual-information")(test, z)
    found = {
        "lower": estimate.value,
        "lower-stderr": estimate.stderr,
        "null": estimate.null,
    }
    # From above: no statistics network can be fooled here.
    if row.encoder == "gaussian":
        found["upper"], found["upper-stderr"] = information_upper_bound(mean, sigma)
    if row.encoder == "gaussian" and not row.input_noise:
        found["density"], found["density-stderr"] = information_from_density(z, mean, sigma)
        if found["density"] > math.log(len(z)) - 0.05:
            context.warn(
                f"the density of a Gaussian encoder tells all {len(z)} test inputs apart: its "
                f"information is log({len(z)}) or more, whatever is hidden from the estimator"
            )
    return found


def _quantities(
    name: str,
    rows: Rows,
    labels: Tensor,
) -> dict[str, penchant.Quantity]:
    error, stderr = _misclassified(rows, len(labels))
    commonest = float(labels.bincount().max()) / len(labels)
    quantities = {
        f"error-{name}": penchant.Quantity(
            error,
            stderr=stderr,
            over="trainings and test samples",
            count=len(rows),
            null=1 - commonest,
        )
    }
    for key, label in NAMES.items():
        if key not in rows[0]:
            continue
        value, stderr = _with_error(rows, key)
        # A code that knows nothing of its input; what an estimator finds then is measured.
        null: float | None = 0.0
        if key == "lower" and rows[0]["null"] is not None:
            null = float(np.mean([row["null"] for row in rows]))
        quantities[f"{label}-{name}"] = penchant.Quantity(
            value,
            stderr=stderr,
            over="trainings",
            count=len(rows),
            unit="nats",
            null=null,
        )
    return quantities


def _misclassified(rows: Rows, tested: int) -> tuple[float, float]:
    """Mean and its standard error over trainings and the test samples that they share."""
    errors = [row["error"] for row in rows]
    return accuracy(errors, tested)


def _with_error(rows: Rows, key: str) -> tuple[float, float]:
    """Mean over trainings; its error is their spread, at least what each states of itself."""
    values = [row[key] for row in rows]
    mean, spread = mean_and_stderr(values)
    # Few trainings may agree by chance: their own errors are the least.
    name = INFORMATION[key]
    stated = [row[name] for row in rows]
    variance = np.mean(np.square(stated))
    own = math.sqrt(variance / len(rows))
    return mean, max(spread or 0.0, own)


def _sweep(
    betas: tuple[float, ...],
    groups: list[Rows],
    tested: int,
) -> dict[str, Any]:
    arrays: dict[str, Any] = {"betas": np.array(betas)}
    errors = [_misclassified(rows, tested) for rows in groups]
    arrays |= _with_stderr("error-by-beta", errors)
    for key, label in SWEEPS.items():
        found = [_with_error(rows, key) for rows in groups]
        arrays |= _with_stderr(label, found)
    return arrays


def _with_stderr(label: str, found: list[tuple[float, float]]) -> dict[str, Any]:
    """Arrays of values and of their standard errors."""
    values, errors = zip(*found)
    return {
        label: np.array(values),
        f"{label}-stderr": np.array(errors),
    }
