"""The probe `mutual-information`: between input, label and layers, along training."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np
import penchant
import torch
from torch import Tensor, nn

from penchant_mine import figures
from penchant_mine._families import Setting, correlated
from penchant_mine._known_information import correlation_for
from penchant_mine.naming import labels_of

LARGEST_SHARE = 0.95  # of the log of the number of pairs: no calibration with more information than they can show
CALIBRATIONS = 5  # estimates for normal pairs, at most


def run(options: Any, context: Any) -> penchant.Result:
    """Every estimator at every step, one shard each."""
    layers = [
        each.partition(":")[2]
        for each in (options.first, options.second)
        if each.startswith("layer:")
    ]
    for each in (options.first, options.second):
        if each not in ("input", "label") and not each.startswith("layer:"):
            raise penchant.Error(f"a variable must be input, label or layer:NAME, found {each!r}")
    steps = _steps(options, context, layers)
    names = labels_of(context.estimators("mutual-information"))
    shared = attrs.asdict(options)
    items = [[number, step, shared] for number in range(len(names)) for step in steps]
    found = list(context.map(measure, items))
    if layers:
        _note_noise(options, context)
    table = {
        name: found[number * len(steps) : (number + 1) * len(steps)]
        for number, name in enumerate(names)
    }
    arrays: dict[str, Any] = {"step": np.array([step or 0 for step in steps])}
    for name, rows in table.items():
        arrays[f"information-{name}"] = np.array([row["value"] for row in rows])
        arrays[f"information-{name}-stderr"] = np.array([row["stderr"] for row in rows])
        arrays[f"null-{name}"] = np.array([row["null"] for row in rows])
    quantities: dict[str, penchant.Quantity] = {}
    for name, rows in table.items():
        quantities |= _quantities(name, rows[-1])
    return penchant.Result(quantities, arrays)


def _steps(options: Any, context: Any, layers: list[str]) -> list[int | None]:
    """The steps that training really reaches (it may stop early); one nameless step where no network is asked for."""
    if not layers:
        return [None]
    return [step for step, _ in context.trained(options.steps or None)]


def _note_noise(options: Any, context: Any) -> None:
    context.conventions["noise on layers"] = (
        f"normal, {options.noise:g} standard deviations of the layer's activations"
    )
    if options.noise == 0 and "label" not in (options.first, options.second):
        context.warn(
            "without noise a layer is a function of the input: the true information is infinite, and the values say little"
        )


def measure(context: Any, item: Any) -> dict[str, float]:
    """One estimator at one step."""
    number, step, options = item
    x, z = (variable(context, options[name], step, options) for name in ("first", "second"))
    estimator = context.estimators("mutual-information")[number]
    estimate = estimator(x, z)
    for warning in estimate.warnings:
        context.warn(warning if step is None else f"step {step}: {warning}")
    found = {
        name: float(getattr(estimate, name))
        for name in ("value", "training", "stderr", "null", "null_stderr", "count")
    }
    context.conventions[f"standard error of {estimator.name}"] = estimate.over
    return {
        **found,
        **(calibration(context, estimator, x, z, estimate.value) if options["calibrate"] else {}),
    }


def calibration(
    context: Any, estimator: Any, x: Tensor, z: Tensor, value: float
) -> dict[str, float]:
    """The estimator's error for normal pairs of the same sizes for which it gives about this value, and its standard error.

    Which pairs these are is found by the secant method, from pairs with as much information as the value says.
    """
    sizes = [math.prod(each.shape[1:]) for each in (x, z)]
    most = LARGEST_SHARE * math.log(len(x))
    known: list[
        tuple[float, float]
    ] = []  # information of normal pairs, and what the estimator makes of it
    wanted = min(max(0.0, value), most)
    for turn in range(CALIBRATIONS):
        drawn = correlated(
            Setting(*sizes),
            correlation_for(wanted, min(sizes)),
            len(x),
            context.generator("calibration", turn),
        )
        estimate = estimator(*(each.to(x.device, x.dtype) for each in drawn))
        known.append((wanted, float(estimate.value)))
        following = min(max(0.0, _secant(known, value)), most)
        if abs(estimate.value - value) <= 2 * estimate.stderr or following == wanted:
            return {"bias": known[-1][1] - wanted, "bias-stderr": float(estimate.stderr)}
        wanted = following
    context.warn(
        f"no normal pairs were found for which the estimator gives {value:.3g}; its bias is that for {known[-1][1]:.3g}"
    )
    return {"bias": known[-1][1] - known[-1][0], "bias-stderr": float(estimate.stderr)}


def _secant(known: list[tuple[float, float]], value: float) -> float:
    """Where the line through the last two points reaches this value; one of slope 1 where there is one point, or they go down."""
    (here, found), slope = known[-1], 1.0
    if len(known) > 1:
        rise = (found - known[-2][1]) / (here - known[-2][0])
        slope = rise if rise > 0.05 else 1.0
    return here + (value - found) / slope


def variable(context: Any, name: str, step: int | None, options: Any) -> Tensor:
    """Samples of a variable, rows in the order of the dataset; classes as indicator columns."""
    samples = getattr(context.data, options["part"])
    count = options["samples"] or len(samples.inputs)
    if name == "input":
        return samples.inputs[:count].flatten(1)
    if name == "label":
        labels = samples.labels[:count]
        classes = context.data.classes
        return (
            nn.functional.one_hot(labels, classes).to(context.dtype)
            if classes
            else labels.reshape(len(labels), -1)
        )
    network = next(network for _, network in context.trained([step]))
    values = activations(network, name.partition(":")[2], samples.inputs[:count])
    noise = torch.randn(values.shape, generator=context.generator("noise", name), device="cpu").to(
        values
    )
    return values + options["noise"] * values.std() * noise


@torch.no_grad()
def activations(network: nn.Module, layer: str, inputs: Tensor) -> Tensor:
    """Outputs (samples, size) of the layer with this name."""
    modules = dict(network.named_modules())
    if layer not in modules:
        known = ", ".join(name for name in modules if name)
        raise penchant.Error(f"the network has no layer {layer!r}; its layers are {known}")
    calls: list[Any] = []
    handle = modules[layer].register_forward_hook(lambda module, given, out: calls.append(out))
    kept = []
    try:
        for part in inputs.split(1024):
            calls.clear()
            network(part)
            kept.append(_rows(calls[-1] if calls else None, layer, len(part)))
    finally:
        handle.remove()
    return torch.cat(kept)


def _rows(out: Any, layer: str, count: int) -> Tensor:
    """One row a sample, of the last call of a layer that is called several times."""
    if not isinstance(out, Tensor) or out.ndim == 0 or len(out) != count:
        found = (
            "was not called"
            if out is None
            else f"gives {tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__}"
        )
        raise penchant.Error(
            f"layer {layer!r} {found} for {count} samples, expected a tensor with a row for each"
        )
    return out.reshape(count, -1)


def _quantities(name: str, row: dict[str, float]) -> dict[str, penchant.Quantity]:
    null = {"null": row["null"], "null_stderr": row["null_stderr"]}
    error = {
        "stderr": row["stderr"],
        "over": "see conventions",
        "count": int(row["count"]),
        "unit": "nats",
    }
    quantities = {
        name: penchant.Quantity(row["value"], **error, **null),
        f"{name}-train": penchant.Quantity(row["training"], **error),
    }
    if "bias" in row:
        quantities[f"{name}-bias"] = penchant.Quantity(
            row["bias"], **{**error, "stderr": row["bias-stderr"]}
        )
    return quantities


def plot(result: penchant.Result) -> dict[str, Any]:
    """Information along training, or one bar an estimator."""
    return {"information": figures.information(result)}
