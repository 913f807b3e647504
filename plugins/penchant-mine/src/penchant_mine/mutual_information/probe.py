"""The probe `mutual-information`: between input, label and layers, along training.

One position of every sequence, so that pairs are independent.

What a layer of a network gives for samples.
"""

from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.data import IGNORED, Samples, count_aligned
from torch import Generator, Tensor, nn

from penchant_mine.declarations.information import MutualInformation
from penchant_mine.mutual_information.calibration import calibrated_bias

LAYER = "layer:"
NULL = ("null", "null_spread", "null_stderr")

Rows = list[dict[str, Any]]  # what shards found, one row per step


def run(options: MutualInformation, context: penchant.Context) -> penchant.Result:
    """Every estimator at every step, one shard each."""
    if options.arrays_given:
        _check_arrays(options)
    variables = (options.first, options.second)
    for each in variables:
        known = each in ("input", "label") or each.startswith(LAYER)
        if not known:
            raise penchant.Error(f"a variable must be input, label or layer:NAME, found {each!r}")
    # Training happens here, once; shards read its checkpoints.
    steps = _steps(options, context)
    _note(options, context)
    labels = [estimator.label for estimator in context.estimators("mutual-information")]
    # Estimators one after another, each at every step.
    items = []
    for number in range(len(labels)):
        items += [{"estimator": number, "step": step} for step in steps]
    shards = list(context.map(measure, items))
    # One row per estimator, in the order of steps.
    table = {}
    count = len(steps)
    for number, label in enumerate(labels):
        start = number * count
        table[label] = shards[start : start + count]
    return _result(table, steps)


def _steps(options: MutualInformation, context: penchant.Context) -> list[int | None]:
    """The steps that training really reaches; one nameless step where no layer is requested."""
    if not _asks_for_layer(options):
        return [None]
    trained = context.trained(options.eval_steps)
    return [step for step, _ in trained]


def _check_arrays(options: MutualInformation) -> None:
    """Refuse one array without the other, and pairs that do not match."""
    if options.x is None or options.z is None:
        raise penchant.Error(f"x and z go together, found {options.arrays_given[0]} alone")
    count_aligned({"x": options.x, "z": options.z}, options.sample_ids)


def _asks_for_layer(options: MutualInformation) -> bool:
    variables = (options.first, options.second)
    return any(each.startswith(LAYER) for each in variables)


def _note(options: MutualInformation, context: penchant.Context) -> None:
    if options.arrays_given:
        used = len(options.x[: options.samples])
        context.conventions["pairs"] = f"{used} of the arrays' {len(options.x)}"
        return
    samples, positions = _samples(options, context)
    used = len(samples.inputs)
    there = len(context.data.train.inputs) + len(context.data.test.inputs)
    split = "train and test" if _split(options) == "both" else _split(options)
    context.conventions["pairs"] = f"{used} of the dataset's {there}, {split}"
    if positions is not None:
        context.conventions["positions"] = (
            "one of each sequence, at random among those with a label: the layer there, and the "
            "label there"
        )
    if not _asks_for_layer(options):
        return
    context.conventions["noise on layers"] = (
        f"normal, {options.noise_std:g} standard deviations of the layer's activations"
    )
    if options.noise_std == 0 and "label" not in (options.first, options.second):
        context.warn(
            "without noise a layer is a function of the input: the true information is infinite, "
            "and the values say little"
        )


def measure(context: penchant.Context, item: dict[str, Any]) -> dict[str, Any]:
    """One estimator at one step."""
    options: MutualInformation = context.options
    step = item["step"]
    if options.arrays_given:
        x, z = _given(context, options.x), _given(context, options.z)
    else:
        x = variable(context, options.first, step)
        z = variable(context, options.second, step)
    # Estimates at different steps have different random numbers.
    scope = context.scope("step", step or 0)
    estimator = scope.estimators("mutual-information")[item["estimator"]]
    estimate = estimator(x, z)
    # What a quantity needs, text included.
    numbers = {
        "value": estimate.value,
        "training": estimate.training,
        "training-stderr": estimate.details.get("training_stderr"),
        "training-df": estimate.details.get("training_df"),
        "stderr": estimate.stderr,
        "df": estimate.details.get("df"),
        "over": estimate.over,
        "count": estimate.count,
        "null": estimate.null,
        "null_spread": estimate.null_spread,
        "null_stderr": estimate.null_stderr,
    }
    of_training = estimate.details.get("training_null", {})
    numbers |= {f"training-{name}": of_training.get(name) for name in NULL}
    if options.calibrate:
        numbers |= calibrated_bias(
            context, item["estimator"], x, z, estimate.value, estimate.stderr
        )
    return numbers


def _given(context: penchant.Context, array: Any) -> Tensor:
    """An array as samples of a variable."""
    rows = array[: context.options.samples]
    return torch.as_tensor(rows, device=context.device, dtype=context.dtype).reshape(len(rows), -1)


def variable(context: penchant.Context, name: str, step: int | None) -> Tensor:
    """Samples of a variable, rows in the order of the dataset; classes as indicator columns."""
    options: MutualInformation = context.options
    samples, positions = _samples(options, context)
    count = len(samples.inputs)
    if name == "input":
        if context.data.has_tokens:
            raise penchant.Error(
                "mutual-information with the input needs continuous-inputs, found whole numbers: "
                "measure between a layer and the label"
            )
        return samples.inputs.reshape(count, -1)
    # Classes have no order: an indicator for each.
    if name == "label":
        classes = context.data.classes
        if classes:
            return nn.functional.one_hot(samples.labels, classes).to(context.dtype)
        return samples.labels.reshape(count, -1)
    # A layer is a function of the input, so declared noise is added to it.
    assert step is not None  # `_steps` names them where a layer is chosen
    network = next(network for _, network in context.trained([step]))
    values = activations(network, name.removeprefix(LAYER), samples.inputs, positions)
    noise = torch.randn(values.shape, generator=context.generator("noise", name), device="cpu")
    return values + options.noise_std * values.std() * noise.to(values)


def _split(options: MutualInformation) -> str:
    if options.split:
        return options.split
    # What a layer knows of samples it was trained on.
    return "train" if _asks_for_layer(options) else "both"


def _samples(
    options: MutualInformation, context: penchant.Context
) -> tuple[Samples, Tensor | None]:
    """Pairs, and of sequences the position of each at which they are taken."""
    data, split = context.data, _split(options)
    # Training samples come first, so that `samples` takes these before the others.
    if split == "both":
        inputs = torch.cat([data.train.inputs, data.test.inputs])
        labels = torch.cat([data.train.labels, data.test.labels])
        samples = Samples(inputs, labels)
    else:
        samples = getattr(data, split)
    samples = samples.select(slice(0, options.samples))
    if not samples.kind.by_position:
        return samples, None
    return one_position(samples, context.generator("positions"))


def _result(rows: dict[str, Rows], steps: list[int | None]) -> penchant.Result:
    """Tables along the steps, quantities of the last one."""
    axes = {"step": [step or 0 for step in steps]}
    tables = {}
    quantities: dict[str, penchant.Quantity] = {}
    for label, own in rows.items():
        quantities |= _quantities(label, own[-1])
        tables[f"information-{label}"] = penchant.Table(
            [row["value"] for row in own],
            axes,
            stderr=[row["stderr"] for row in own],
            over=own[-1]["over"],
            count=own[-1]["count"],
            unit="nats",
        )
        # Where no pairs were shuffled there is no null.
        if own[0]["null"] is not None:
            null = [row["null"] for row in own]
            tables[f"null-{label}"] = penchant.Table(null, axes, unit="nats")
    return penchant.Result(quantities, {"steps": np.array(axes["step"])}, tables=tables)


def _quantities(label: str, row: dict[str, Any]) -> dict[str, penchant.Quantity]:
    about = {"over": row["over"], "count": row["count"], "unit": "nats"}
    # Unknown fields of the null are None.
    null = {name: row[name] for name in NULL}
    training_null = {name: row[f"training-{name}"] for name in NULL}
    quantities = {
        label: penchant.Quantity(row["value"], stderr=row["stderr"], df=row["df"], **null, **about),
        f"{label}-train": penchant.Quantity(
            row["training"],
            stderr=row["training-stderr"],
            df=row["training-df"],
            **training_null,
            **about,
        ),
    }
    if "bias" in row:
        quantities[f"{label}-bias"] = penchant.Quantity(
            row["bias"], stderr=row["bias-stderr"], df=row["df"], null=0.0, **about
        )
    return quantities


def one_position(samples: Samples, generator: Generator) -> tuple[Samples, Tensor]:
    """A random position with a label of each sequence, and its label.

    Args:
        samples: Sequences with labels (samples, positions); those without a label are left out.
        generator: On the CPU.

    Returns:
        The sequences with one label each, and the positions (samples,).
    """
    labels = samples.labels
    counted = (labels != IGNORED).cpu()
    scores = torch.rand(labels.shape, generator=generator, device="cpu")
    positions = scores.masked_fill(~counted, -1).argmax(1).to(labels.device)
    chosen = counted.any(1).to(labels.device)
    own = labels.gather(1, positions[:, None])[:, 0]
    return Samples(samples.inputs[chosen], own[chosen]), positions[chosen]


CHUNK = 1024  # samples a forward pass


@torch.no_grad()
def activations(
    network: nn.Module, layer: str, inputs: Tensor, positions: Tensor | None = None
) -> Tensor:
    """Outputs (samples, size) of the layer with this name.

    Args:
        network: The network.
        layer: The layer's name.
        inputs: Samples.
        positions: Of sequences: the position (samples,) at which the layer is read.

    Returns:
        A row per sample.
    """
    modules = dict(network.named_modules())
    if layer not in modules:
        known = ", ".join(name for name in modules if name)
        raise penchant.Error(f"the network has no layer {layer!r}; its layers are {known}")
    # A hook sees what the layer gives, however the network calls it.
    calls: list[Any] = []
    handle = modules[layer].register_forward_hook(lambda module, given, out: calls.append(out))
    rows = []
    # Samples go through some at a time.
    try:
        for number, chunk in enumerate(inputs.split(CHUNK)):
            calls.clear()
            network(chunk)
            # Of a layer that is called several times, the last call counts.
            out = calls[-1] if calls else None
            if positions is not None:
                out = _at_positions(out, positions.split(CHUNK)[number], layer)
            rows.append(_rows(out, layer, len(chunk)))
    finally:
        handle.remove()
    return torch.cat(rows)


def _at_positions(out: Any, positions: Tensor, layer: str) -> Any:
    """What a layer gives at one position of each sequence; (samples, size) has no positions."""
    if not isinstance(out, Tensor) or out.ndim < 3:
        return out
    if int(positions.max()) >= out.shape[1]:
        raise penchant.Error(
            f"layer {layer!r} gives {tuple(out.shape)}, expected (samples, positions, ...)"
        )
    return out[torch.arange(len(out), device=out.device), positions]


def _rows(out: Any, layer: str, count: int) -> Tensor:
    """One row per sample."""
    if isinstance(out, Tensor) and out.ndim and len(out) == count:
        return out.reshape(count, -1)
    if out is None:
        actual = "was not called"
    elif isinstance(out, Tensor):
        actual = f"gives {tuple(out.shape)}"
    else:
        actual = f"gives {type(out).__name__}"
    raise penchant.Error(
        f"layer {layer!r} {actual} for {count} samples, expected a tensor with a row for each"
    )
