"""The probe `information-benchmark`: estimators against known information."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np
import penchant

from penchant_mine import figures
from penchant_mine._families import FAMILIES, Setting
from penchant_mine.naming import labels_of


def run(options: Any, context: Any) -> penchant.Result:
    """Every estimator on every value of the grid and every sample, one shard each."""
    options = _fitted_to_dataset(options, context)
    _check(options)
    setting = _setting(options)
    truth = np.array([FAMILIES[options.family].truth(setting, value) for value in options.grid])
    names = labels_of(context.estimators("mutual-information"))
    shared = attrs.asdict(options)
    cells = [
        (number, place, draw)
        for number in range(len(names))
        for place in range(len(options.grid))
        for draw in range(options.repeats)
    ]
    found = list(context.map(measure, [[*cell, shared] for cell in cells]))
    shape = (len(names), len(options.grid), options.repeats)
    table = {
        key: np.array([row[key] for row in found]).reshape(shape)
        for key in ("value", "training", "stderr", "warned")
    }
    arrays: dict[str, Any] = {"parameter": np.array(options.grid), "truth": truth}
    quantities: dict[str, penchant.Quantity] = {}
    for number, name in enumerate(names):
        rows = {key: values[number] for key, values in table.items()}
        arrays |= _arrays(name, rows)
        quantities |= _quantities(name, rows, truth)
    context.conventions["parameter"] = FAMILIES[options.family].parameter
    context.conventions["unit"] = "nats"
    return penchant.Result(quantities, arrays)


def _fitted_to_dataset(options: Any, context: Any) -> Any:
    """With a dataset: its dimensions and number of samples, with normal pairs."""
    try:
        data = context.data
    except penchant.Error as error:
        if "given no dataset" in str(error):  # the only way a context says so
            return options
        raise
    sizes = {
        "dimension": math.prod(data.shape),
        "dimension_z": data.outputs,
        "samples": len(data.train.inputs),
    }
    return attrs.evolve(options, family="gaussian", **sizes)


def _check(options: Any) -> None:
    if options.family in ("gaussian", "spiral") and not all(
        -1 < value < 1 for value in options.grid
    ):
        raise penchant.Error(
            f"the grid of the family {options.family} holds correlations between -1 and 1, found {list(options.grid)}"
        )
    if options.family not in ("gaussian", "spiral") and not all(
        value > 0 for value in options.grid
    ):
        raise penchant.Error(
            f"the grid of the family {options.family} must be above 0, found {list(options.grid)}"
        )
    if options.family == "spiral" and options.dimension < 2:
        raise penchant.Error(
            f"the family spiral turns two components: dimension must be at least 2, found {options.dimension}"
        )
    if options.family != "gaussian" and options.dimension_z not in (0, options.dimension):
        raise penchant.Error(
            f"dimension_z differs from dimension for normal pairs only, found the family {options.family}"
        )


def _setting(options: Any) -> Setting:
    get = options.get if isinstance(options, dict) else lambda name: getattr(options, name)
    return Setting(
        get("dimension"),
        get("dimension_z") or get("dimension"),
        get("map"),
        get("rho"),
        get("turns"),
    )


def measure(context: Any, item: Any) -> dict[str, float]:
    """One estimator on one sample; all estimators see the same samples."""
    number, place, draw, options = item
    family = FAMILIES[options["family"]]
    pairs = family.draw(
        _setting(options),
        options["grid"][place],
        options["samples"],
        context.generator("samples", place, draw),
    )
    estimator = context.estimators("mutual-information")[number]
    estimate = estimator(*(each.to(context.device, context.dtype) for each in pairs))
    for warning in estimate.warnings:
        context.warn(f"{family.parameter} {options['grid'][place]:g}: {warning}")
    return {
        "value": estimate.value,
        "training": estimate.training,
        "stderr": estimate.stderr,
        "warned": float(bool(estimate.warnings)),
    }


def _arrays(name: str, rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    count = rows["value"].shape[1]
    stated = np.sqrt((rows["stderr"] ** 2).mean(1) / count)
    spread = rows["value"].std(1, ddof=1) / math.sqrt(count) if count > 1 else np.zeros_like(stated)
    return {
        f"estimate-{name}": rows["value"].mean(1),
        f"estimate-{name}-stderr": np.maximum(spread, stated),
        f"train-{name}": rows["training"].mean(1),
        f"error-{name}": rows["stderr"].mean(1),
        f"warned-{name}": rows["warned"].mean(1),
    }


def _quantities(
    name: str, rows: dict[str, np.ndarray], truth: np.ndarray
) -> dict[str, penchant.Quantity]:
    error = rows["value"] - truth[:, None]
    covered = np.abs(error) <= 2 * rows["stderr"]
    cells, repeats = error.shape
    over = {"over": "grid and independent samples", "count": error.size}
    quantities = {
        f"bias-{name}": penchant.Quantity(
            error.mean(), stderr=_deviation(error) / math.sqrt(error.size), unit="nats", **over
        ),
        f"coverage-{name}": penchant.Quantity(
            covered.mean(), stderr=_binomial(covered.mean(), covered.size), null=0.954, **over
        ),
        f"warned-{name}": penchant.Quantity(
            rows["warned"].mean(), stderr=_binomial(rows["warned"].mean(), error.size), **over
        ),
    }
    if repeats > 1:
        spread = error.std(1, ddof=1).mean()
        stderr = spread / math.sqrt(2 * cells * (repeats - 1))
        quantities[f"spread-{name}"] = penchant.Quantity(spread, stderr=stderr, unit="nats", **over)
    return quantities


def _deviation(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) if values.size > 1 else 0.0


def _binomial(share: float, count: int) -> float:
    return math.sqrt(max(share * (1 - share), 1 / (4 * count)) / count)


def plot(result: penchant.Result) -> dict[str, Any]:
    """Estimates over the grid against the truth."""
    return {"information": figures.benchmark(result)}
