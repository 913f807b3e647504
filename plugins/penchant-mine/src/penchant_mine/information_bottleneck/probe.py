"""The probe `information-bottleneck`: classifiers whose representation is kept small."""

import math
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.data import kind_of
from penchant_numerics.statistics import NO_NULL, mean_and_stderr, null_of, paired_difference
from penchant_numerics.training import constructed, shard_of
from torch import Generator, Tensor

from penchant_mine.declarations.generative import InformationBottleneck
from penchant_mine.information_bottleneck.bottleneck import (
    PROPAGATED_INPUTS,
    ROWS,
    BottleneckRecipe,
    Classifier,
    NoisyStatistics,
    Row,
    information_from_density,
    information_upper_bound,
    misclassified,
    train_rows,
)
from penchant_mine.shared.generative.network_stacks import groups, rows_of
from penchant_mine.shared.recipes import recipe_from

SWEPT = "mine-gaussian"
BASELINE = "baseline"
VARIATIONAL = "variational"
NOISE_ONLY = {
    "mine-gaussian": "noise-gaussian",
    "mine-propagated": "noise-propagated",
    "mine-additive": "noise-additive",
    "variational": "noise-gaussian",
}
# What is measured of a representation, with the name of its standard error.
INFORMATION = {"upper": "upper-stderr", "density": "density-stderr", "lower": "lower-stderr"}
NAMES = {"upper": "information", "density": "information-density", "lower": "information-lower"}
SWEEPS = {"upper": "information-by-beta", "density": "density-by-beta", "lower": "lower-by-beta"}

OVER = "trainings and test samples"

Rows = list[dict[str, Any]]  # what shards found, one row per training


def run(options: InformationBottleneck, context: penchant.Context) -> penchant.Result:
    """Train every row, and the Gaussian encoder for every beta; narrow ones side by side."""
    # Rows first, then the sweep over beta.
    cells: list[dict[str, Any]] = []
    cells += [{"row": name, "beta": options.beta_mine} for name in options.rows]
    cells += [{"row": SWEPT, "beta": beta} for beta in options.betas or ()]
    items: list[dict[str, Any]] = []
    for number, cell in enumerate(cells):
        for trainings in groups(options.trainings, _widths(options, cell["row"])):
            items.append({**cell, "cell": number, "trainings": trainings})
    # Trainings of one cell stand together.
    by_cell: list[Rows] = [[] for _ in cells]
    for item, answer in zip(items, context.map(measure, items), strict=True):
        by_cell[item["cell"]] += rows_of(answer, len(item["trainings"]))
    labels = context.data.test.labels
    quantities: dict[str, penchant.Quantity] = {}
    table = dict(zip(options.rows, by_cell))
    for name, rows in table.items():
        quantities |= _quantities(name, rows, labels)
        quantities |= _differences(name, table)
    arrays = {}
    if options.betas:
        swept = by_cell[len(options.rows) :]
        arrays = _sweep(options.betas, swept)
    context.conventions["information"] = (
        "I(X; Z) of test inputs, seen by neither training nor stopping of the classifier, and "
        "their representation; density: over these inputs only, at most the log of their number"
    )
    context.conventions["scale"] = (
        f"{len(context.data.train.labels)} training samples, {options.epochs} epochs, widths "
        f"{options.widths}"
    )
    if options.polyak is not None:
        context.conventions["weights"] = f"averaged over steps with {options.polyak:g}"
    return penchant.Result(quantities, arrays)


def _widths(options: InformationBottleneck, row: str) -> tuple[int, ...]:
    """Of all layers that a row trains."""
    judge = (options.statistics_width,) if ROWS[row].regulariser == "mine" else ()
    return (*options.widths, *judge)


def measure(context: penchant.Context, item: dict[str, Any]) -> dict[str, Any]:
    """Train a row several times; test errors and what representations know of test inputs."""
    numbers: list[int] = item["trainings"]
    return shard_of(numbers, lambda trainings: _trained(context, item, trainings))


def _trained(context: penchant.Context, item: dict[str, Any], trainings: list[int]) -> Rows:
    options: InformationBottleneck = context.options
    data = context.data
    row = ROWS[item["row"]]
    # Pixels in [-1, 1], as published.
    x = 2 * data.train.inputs.flatten(1) - 1
    test = 2 * data.test.inputs.flatten(1) - 1
    recipe = recipe_from(BottleneckRecipe, options, beta_mine=item["beta"])
    generators = [context.generator("training", training) for training in trainings]
    seeds = [generator.initial_seed() for generator in generators]
    # The statistics network has the next seed, whether or not it is used.
    networks = [_classifier(context, row, seed) for seed in seeds]
    informants = None
    if row.regulariser == "mine" and item["beta"] > 0:
        informants = [_statistics(context, seed + 1) for seed in seeds]
    # What an encoder passes on before it has learnt anything is the null.
    nulls = []
    for network, training in zip(networks, trainings, strict=True):
        untrained = context.generator("untrained", training)
        nulls.append(_from_density(network, test, recipe, untrained)[0])
    train_rows(networks, informants, x, data.train.labels, recipe, generators)
    rows = []
    for network, null, training in zip(networks, nulls, trainings, strict=True):
        # Judging has a stream of its own, so that more draws change no training.
        judged = context.generator("judged", training)
        draws = options.code_draws
        wrong = misclassified(network, test, data.test.labels, recipe, draws, judged)
        scope = context.scope("information", item["cell"], training)
        known = _information(scope, network, test, recipe, judged)
        known |= {f"untrained-{key}": value for key, value in null.items()}
        rows.append({"wrong": wrong.double(), **known})
    return rows


def _classifier(context: penchant.Context, row: Row, seed: int) -> Classifier:
    options: InformationBottleneck = context.options
    data = context.data
    size = math.prod(data.shape)

    def make() -> Classifier:
        return Classifier(
            row, size, options.widths, options.code, data.classes, propagated=PROPAGATED_INPUTS
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
    if classifier.row.encoder == "plain":
        return {}
    # From above: no statistics network can be fooled here.
    numbers, z = _from_density(classifier, test, recipe, generator)
    if numbers.get("density", 0.0) > math.log(len(z)) - 0.05:
        context.warn(
            f"the density of a Gaussian encoder separates all {len(z)} test inputs: its "
            f"information is log({len(z)}) or more, whatever is hidden from the estimator"
        )
    # From below: what a fresh statistics network finds.
    estimate = context.estimator("mutual-information")(test, z)
    return {
        **numbers,
        "lower": estimate.value,
        "lower-stderr": estimate.stderr,
        "untrained-lower": math.nan if estimate.null is None else estimate.null,
    }


def _from_density(
    classifier: Classifier, test: Tensor, recipe: BottleneckRecipe, generator: Generator
) -> tuple[dict[str, Any], Tensor]:
    """What the density of a Gaussian encoder says, and a draw of z."""
    row = classifier.row
    with torch.no_grad():
        z, mean, sigma = classifier.encode(test, recipe, generator)
    numbers = {}
    if row.encoder == "gaussian":
        numbers["upper"], numbers["upper-stderr"] = information_upper_bound(mean, sigma)
    if row.encoder == "gaussian" and not row.input_noise:
        numbers["density"], numbers["density-stderr"] = information_from_density(z, mean, sigma)
    return numbers, z


def _quantities(name: str, rows: Rows, labels: Tensor) -> dict[str, penchant.Quantity]:
    error, stderr, df = _misclassified(rows)
    commonest = kind_of(labels).commonest
    quantities = {
        f"error-{name}": penchant.Quantity(
            error, stderr=stderr, over=OVER, count=len(rows), df=df, null=1 - commonest
        )
    }
    for key, label in NAMES.items():
        if key not in rows[0]:
            continue
        value, own_error, own_df = _with_error(rows, key)
        # What an untrained encoder has, or what the estimator finds for shuffled pairs.
        nulls = [row[f"untrained-{key}"] for row in rows]
        null = NO_NULL if np.isnan(nulls).any() else null_of(nulls)
        quantities[f"{label}-{name}"] = penchant.Quantity(
            value,
            stderr=own_error,
            over="trainings",
            count=len(rows),
            df=own_df,
            unit="nats",
            **null,
        )
    return quantities


def _differences(name: str, table: dict[str, Rows]) -> dict[str, penchant.Quantity]:
    """A row against baseline, variational bottleneck and its noise only, training by training."""
    rows = table[name]
    others = {"baseline": BASELINE, "variational": VARIATIONAL, "noise": NOISE_ONLY.get(name)}
    quantities = {}
    for label, other in others.items():
        if other not in table or other == name:
            continue
        value, stderr, df = paired_difference(_answers(table[other]), _answers(rows))
        quantities[f"error-against-{label}-{name}"] = penchant.Quantity(
            value, stderr=stderr, over=OVER, count=len(rows), df=df, null=0.0
        )
        if label != VARIATIONAL and "upper" in rows[0] and "upper" in table[other][0]:
            pairs = zip(rows, table[other])
            quantities[f"information-against-{label}-{name}"] = penchant.Quantity.of(
                [row["upper"] - before["upper"] for row, before in pairs],
                over="trainings",
                null=0.0,
                unit="nats",
            )
    return quantities


def _answers(rows: Rows) -> np.ndarray:
    """Which test samples are misclassified, (trainings, samples)."""
    return np.stack([row["wrong"] for row in rows])


def _misclassified(rows: Rows) -> tuple[float, float, float]:
    """Mean, standard error and its freedom over trainings and the test samples they share."""
    wrong = _answers(rows)
    mean, stderr, df = paired_difference(np.zeros_like(wrong), wrong)
    return float(mean), float(stderr), float(df)


def _with_error(rows: Rows, key: str) -> tuple[float, float, float | None]:
    """Mean over trainings; its error is their spread, at least what each states of itself."""
    values = [row[key] for row in rows]
    mean, spread = mean_and_stderr(values)
    # Few trainings may agree by chance: their own errors are the least.
    name = INFORMATION[key]
    stated = [row[name] for row in rows]
    variance = np.mean(np.square(stated))
    own = math.sqrt(variance / len(rows))
    if spread is None or own > spread:
        return mean, own, None
    return mean, spread, len(rows) - 1


def _sweep(betas: tuple[float, ...], groups: list[Rows]) -> dict[str, Any]:
    arrays: dict[str, Any] = {"betas": np.array(betas)}
    errors = [_misclassified(rows) for rows in groups]
    arrays |= _with_stderr("error-by-beta", errors)
    for key, label in SWEEPS.items():
        values = [_with_error(rows, key) for rows in groups]
        arrays |= _with_stderr(label, values)
    return arrays


def _with_stderr(label: str, rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Arrays of values and of their standard errors."""
    values, errors, _ = zip(*rows)
    return {label: np.array(values), f"{label}-stderr": np.array(errors)}
