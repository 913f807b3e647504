"""The probe `information-benchmark`: estimators against known information."""

import math
from typing import Any

import attrs
import numpy as np
import penchant
from penchant_numerics.statistics import binomial_stderr, mean_and_stderr

from penchant_mine.declarations.information import InformationBenchmark
from penchant_mine.shared.information.families import FAMILIES, Setting

NORMAL_COVERAGE = 0.954  # of two standard errors


def run(options: InformationBenchmark, context: penchant.Context) -> penchant.Result:
    """Every estimator on every value of the grid and every sample, one shard each."""
    # A dataset says how many samples and dimensions there are.
    options = _fitted_to_dataset(options, context)
    _check(options)
    cells = grid_of(options)
    family = FAMILIES[options.family]
    # Truth is known for every cell, in closed form or by integration.
    known = [family.truth(_setting(options, name), value) for name, value in cells]
    truth = np.array(known)
    labels = [estimator.label for estimator in context.estimators("mutual-information")]
    shape = (len(labels), len(cells), options.repeats)
    shards = list(context.map(measure, _items(*shape)))
    table = _table(shards, shape)
    maps = [options.maps.index(name) for name, _ in cells]
    parameters = [value for _, value in cells]
    arrays: dict[str, Any] = {
        "parameters": np.array(parameters),
        "maps": np.array(maps),
        "truth": truth,
    }
    quantities: dict[str, penchant.Quantity] = {}
    for number, label in enumerate(labels):
        rows = {key: values[number] for key, values in table.items()}
        arrays |= _arrays(label, rows)
        quantities |= _quantities(label, rows, truth)
    context.conventions["parameter"] = family.parameter
    context.conventions["unit"] = "nats"
    return penchant.Result(quantities, arrays, labels={"maps": options.maps})


def _items(estimators: int, cells: int, repeats: int) -> list[dict[str, int]]:
    """One shard per estimator, cell and draw, in this order."""
    items = []
    for number in range(estimators):
        for position in range(cells):
            for draw in range(repeats):
                items.append({"estimator": number, "position": position, "draw": draw})
    return items


def _fitted_to_dataset(
    options: InformationBenchmark, context: penchant.Context
) -> InformationBenchmark:
    """With a dataset: its dimensions and number of samples, with normal pairs."""
    if not context.has("dataset"):
        return options
    data = context.data
    return attrs.evolve(
        options,
        family="gaussian",
        inputs=math.prod(data.shape),
        inputs_z=data.outputs,
        samples=len(data.train.inputs),
    )


def grid_of(options: InformationBenchmark) -> list[tuple[str, float]]:
    """Map and parameter of every cell; families without a map have the first one."""
    maps = options.maps if options.family == "nonlinear" else options.maps[:1]
    cells = []
    for name in maps:
        cells += [(name, value) for value in options.grid]
    return cells


def _check(options: InformationBenchmark) -> None:
    family, grid = options.family, list(options.grid)
    if FAMILIES[family].parameter == "rho":
        lowest = 0 if family == "dense" else -1
        if not all(lowest <= value < 1 for value in grid) or -1 in grid:
            raise penchant.Error(
                f"the grid of the family {family} holds correlations between {lowest} and 1, "
                f"found {grid}"
            )
    elif not all(value > 0 for value in grid):
        raise penchant.Error(f"the grid of the family {family} must be above 0, found {grid}")
    if family == "spiral" and options.inputs < 2:
        raise penchant.Error(
            f"the family spiral turns two components: inputs must be at least 2, found "
            f"{options.inputs}"
        )
    if family != "gaussian" and options.inputs_z not in (None, options.inputs):
        raise penchant.Error(
            f"inputs_z differs from inputs for normal pairs only, found the family {family}"
        )


def _setting(options: InformationBenchmark, name: str) -> Setting:
    return Setting(
        x_size=options.inputs,
        z_size=options.inputs_z or options.inputs,
        map=name,
        rho=options.rho,
        turns=options.turns,
    )


def measure(context: penchant.Context, item: dict[str, Any]) -> dict[str, Any]:
    """One estimator on one sample; all estimators see the same samples."""
    options = _fitted_to_dataset(context.options, context)
    position, draw = item["position"], item["draw"]
    name, value = grid_of(options)[position]
    # Samples depend on cell and draw only, so that estimators see the same.
    pairs = FAMILIES[options.family].draw(
        _setting(options, name),
        value,
        options.samples,
        context.generator("samples", position, draw),
    )
    x, z = (each.to(context.device, context.dtype) for each in pairs)
    scope = context.scope("estimate", position, draw)
    estimate = scope.estimators("mutual-information")[item["estimator"]](x, z)
    return {
        "value": estimate.value,
        "training": estimate.training,
        "stderr": estimate.stderr,
        "warned": bool(estimate.warnings),
    }


def _table(estimates: list[dict[str, Any]], shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Numbers (estimators, cells, repeats) by name."""
    table = {}
    for key in ("value", "training", "stderr", "warned"):
        column = [row[key] for row in estimates]
        numbers = np.array(column, dtype=np.float64)
        table[key] = numbers.reshape(shape)
    return table


def _arrays(label: str, rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    count = rows["value"].shape[1]
    # Few draws may agree by chance: the stated error is the least.
    variance = (rows["stderr"] ** 2).mean(1)
    stated = np.sqrt(variance / count)
    mean, spread = mean_and_stderr(rows["value"], axis=1)
    stderr = stated if spread is None else np.maximum(spread, stated)
    return {
        f"estimate-{label}": mean,
        f"estimate-{label}-stderr": stderr,
        f"train-{label}": rows["training"].mean(1),
        f"error-{label}": rows["stderr"].mean(1),
        f"warned-{label}": rows["warned"].mean(1),
    }


def _quantities(
    label: str, rows: dict[str, np.ndarray], truth: np.ndarray
) -> dict[str, penchant.Quantity]:
    error = rows["value"] - truth[:, None]
    covered = (np.abs(error) <= 2 * rows["stderr"]).mean()
    warned = rows["warned"].mean()
    cells, repeats = error.shape
    over = {"over": "grid and independent samples", "count": error.size}
    quantities = {
        f"bias-{label}": penchant.Quantity.of(error, over=over["over"], null=0.0, unit="nats"),
        f"coverage-{label}": penchant.Quantity(
            covered, stderr=binomial_stderr(covered, error.size), null=NORMAL_COVERAGE, **over
        ),
        f"warned-{label}": penchant.Quantity(
            warned, stderr=binomial_stderr(warned, error.size), **over
        ),
    }
    # One draw has no spread.
    if repeats > 1:
        spread = error.std(1, ddof=1).mean()
        # Errors that say what they claim are as large.
        stated = np.sqrt((rows["stderr"] ** 2).mean(1)).mean()
        freedom = cells * (repeats - 1)
        quantities[f"spread-{label}"] = penchant.Quantity(
            spread,
            stderr=spread / math.sqrt(2 * freedom),
            df=freedom,
            null=stated,
            unit="nats",
            **over,
        )
    return quantities
