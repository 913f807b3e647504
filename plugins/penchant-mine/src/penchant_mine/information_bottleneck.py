"""The probe `information-bottleneck`: classifiers whose representation is kept small, and what that does to their errors."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np
import penchant

from penchant_mine import bottleneck_figures
from penchant_mine._adversaries import seeded
from penchant_mine._bottleneck import (
    ROWS,
    BottleneckRecipe,
    Classifier,
    NoisyStatistics,
    error_rate,
    information_from_density,
    train_row,
)

SWEPT = "mine-gaussian"


def run(options: Any, context: Any) -> penchant.Result:
    """Train every row, and the Gaussian encoder for every beta, `repeats` times: one shard each."""
    if not context.data.classes:
        raise penchant.Error("information-bottleneck needs a dataset with classes")
    shared = attrs.asdict(options)
    cells = [(name, options.beta_mine) for name in options.rows] + [
        (SWEPT, beta) for beta in options.betas
    ]
    items = [
        [name, beta, repeat, shared] for name, beta in cells for repeat in range(options.repeats)
    ]
    found = list(context.map(measure, items))
    groups = [
        found[start : start + options.repeats] for start in range(0, len(found), options.repeats)
    ]
    quantities: dict[str, penchant.Quantity] = {}
    for name, rows in zip(options.rows, groups):
        quantities |= _quantities(name, rows, context.data.test.labels)
    context.conventions["information"] = (
        "I(X; Z) between test inputs, seen by neither training nor stopping of the classifier, and their representation; "
        "density: of the Gaussian encoder over these inputs, at most the log of their number"
    )
    context.conventions["scale"] = (
        f"{len(context.data.train.labels)} training samples, {options.epochs} epochs, widths {options.widths}"
    )
    swept = groups[len(options.rows) :]
    return penchant.Result(
        quantities, _sweep(options, swept, len(context.data.test.labels)) if options.betas else {}
    )


def measure(context: Any, item: Any) -> dict[str, float]:
    """Train one row once; its test error and the information its representation has about test inputs."""
    name, beta, repeat, options = item
    row, data = ROWS[name], context.data
    x, test = (
        2 * part.inputs.flatten(1) - 1 for part in (data.train, data.test)
    )  # pixels in [-1, 1], as published
    values = {key: options[key] for key in BottleneckRecipe.__dataclass_fields__} | {
        "beta_mine": beta
    }
    recipe, generator = BottleneckRecipe(**values), context.generator("training", repeat)
    size, code, seed = x.shape[1], options["code"], generator.initial_seed()
    classifier = seeded(
        seed,
        lambda: Classifier(
            row, size, options["widths"], code, data.classes, extra=options["propagated"]
        ),
        context.device,
    )
    statistics = seeded(
        seed + 1, lambda: NoisyStatistics(size + code, options["statistics"]), context.device
    )
    used = statistics if row.regulariser == "mine" and beta > 0 else None
    train_row(classifier, used, x, data.train.labels, recipe, generator)
    judged = context.generator("judged", repeat)
    found = {
        "error": error_rate(classifier, test, data.test.labels, recipe, options["draws"], judged)
    }
    return {**found, **_information(context, classifier, test, recipe, judged)}


def _information(
    context: Any, classifier: Classifier, test: Any, recipe: BottleneckRecipe, generator: Any
) -> dict[str, float]:
    """By the chosen estimator for every noisy encoder, and from its density for a Gaussian one without noise on the input."""
    import torch

    if classifier.row.encoder == "plain":
        return {}
    with torch.no_grad():
        z, mean, sigma = classifier.encode(test, recipe, generator)
    estimate = context.estimator("mutual-information")(test, z)
    for warning in estimate.warnings:
        context.warn(warning)
    found = {"information": estimate.value, "stderr": estimate.stderr, "null": estimate.null}
    if classifier.row.encoder == "gaussian" and not classifier.row.input_noise:
        found["density"], found["density-stderr"] = information_from_density(z, mean, sigma)
        if found["density"] > math.log(len(z)) - 0.05:
            context.warn(
                f"the density of a Gaussian encoder tells all {len(z)} test inputs apart: its information is log({len(z)}) or more, "
                "whatever is hidden from the estimator"
            )
    return found


def _quantities(
    name: str, rows: list[dict[str, float]], labels: Any
) -> dict[str, penchant.Quantity]:
    error, stderr = _misclassified(rows, len(labels))
    over = {
        "count": len(rows),
        "over": "independent trainings; at least binomial over test samples",
    }
    commonest = float(labels.bincount().max()) / len(labels)
    quantities = {
        f"error-{name}": penchant.Quantity(error, stderr=stderr, null=1 - commonest, **over)
    }
    for key, stated in (("information", "stderr"), ("density", "density-stderr")):
        if key in rows[0]:
            value, error = _with_error(rows, key, stated)
            null = (
                {"null": float(np.mean([row["null"] for row in rows]))}
                if key == "information"
                else {}
            )
            label = f"information-{name}" if key == "information" else f"information-density-{name}"
            quantities[label] = penchant.Quantity(
                value,
                stderr=error,
                over="independent trainings",
                count=len(rows),
                unit="nats",
                **null,
            )
    return quantities


def _misclassified(rows: list[dict[str, float]], tested: int) -> tuple[float, float]:
    """Mean and its standard error: over trainings, which share their test samples, and at least binomial over these."""
    errors = np.array([row["error"] for row in rows])
    binomial = math.sqrt(max(errors.mean() * (1 - errors.mean()), 1 / tested) / tested)
    spread = errors.std(ddof=1) / math.sqrt(len(rows)) if len(rows) > 1 else 0.0
    return float(errors.mean()), float(max(spread, binomial))


def _with_error(rows: list[dict[str, float]], key: str, stated: str) -> tuple[float, float]:
    values = np.array([row[key] for row in rows])
    spread = values.std(ddof=1) / math.sqrt(len(rows)) if len(rows) > 1 else 0.0
    own = math.sqrt(np.mean([row[stated] ** 2 for row in rows]) / len(rows))
    return float(values.mean()), float(max(spread, own))


def _sweep(options: Any, groups: list[list[dict[str, float]]], tested: int) -> dict[str, Any]:
    arrays: dict[str, Any] = {"beta": np.array(options.betas)}
    for label, key, stated in (
        ("information-by-beta", "information", "stderr"),
        ("density-by-beta", "density", "density-stderr"),
    ):
        pairs = [_with_error(rows, key, stated) for rows in groups]
        arrays[label], arrays[f"{label}-stderr"] = (np.array(part) for part in zip(*pairs))
    errors = zip(*(_misclassified(rows, tested) for rows in groups))
    arrays["error-by-beta"], arrays["error-by-beta-stderr"] = (np.array(part) for part in errors)
    return arrays


def plot(result: penchant.Result) -> dict[str, Any]:
    """Errors of the rows as a table; information and error against beta."""
    drawn = {"errors": bottleneck_figures.errors(result)}
    if "beta" in result.arrays:
        drawn["beta"] = bottleneck_figures.sweep(result)
    return drawn
