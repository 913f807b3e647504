"""Shards of networks: their gradients at probing inputs, merged into an average geometry."""

from __future__ import annotations

import math
from typing import Any

import penchant
import torch
from penchant_numerics.ensembles import Ensemble, draw
from penchant_numerics.safety import safe
from torch import Tensor

from penchant_gih._geometry import Geometry
from penchant_gih._gradients import networks_at_once, probed_gradients, shard_size

OUTPUTS = {1: "the only one", 2: "second logit minus first"}


def measure_geometry(
    context: Any,
    *,
    samples: int,
    outputs: int,
    first: int = 0,
    inputs: int = 1,
    probing: str = "gaussian",
    scale: float = 1.0,
    parts: int = 2,
    width: int | None = None,
) -> Geometry:
    """G of `samples` networks from number `first` on, each at its own probing inputs."""
    size = math.prod(context.architecture.shape)
    step = shard_size(size, inputs)
    base = {
        "inputs": inputs,
        "probing": probing,
        "scale": scale,
        "outputs": outputs,
        "width": width,
    }
    items = [
        {**base, "first": start, "last": min(start + step, first + samples)}
        for start in range(first, first + samples, step)
    ]
    geometry = Geometry(size, device=context.device, inputs=inputs, parts=parts)
    for shard in context.map(shard_gradients, items):
        geometry.add(torch.as_tensor(shard["gradients"], device=context.device))
    context.conventions.update(conventions(context, outputs=outputs, probing=probing, scale=scale))
    return geometry


def conventions(context: Any, *, outputs: int, probing: str, scale: float) -> dict[str, str]:
    """What makes one G incomparable with another."""
    where = {
        "gaussian": f"N(0, {scale:g}^2 I), fresh for every network",
        "zero": "at zero",
        "data": "training inputs, drawn per network",
    }
    return {
        "geometry": "uncentred second moment of input gradients at initialisation",
        "probing": where[probing],
        "output": OUTPUTS[outputs],
        "batch-norm": "running statistics",
    }


def scalar_outputs(context: Any) -> int:
    """Outputs a network for G has: as many as it would be trained with if that is one or two, else one."""
    outputs = context.architecture.outputs
    return outputs if outputs <= 2 else 1


def shard_gradients(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Gradients (networks, inputs, D) of one shard, some networks at a time."""
    found = []
    for networks, indices in drawn(context, item):
        found.append(probed_gradients(networks, probing_points(context, item, indices)))
    return {"gradients": torch.cat(found)}


def drawn(context: Any, item: dict[str, Any], *, largest: int = 2**30) -> Any:
    """The networks of a shard, stacked as many at a time as their parameters allow."""
    architecture = sized(context.architecture.with_outputs(item["outputs"]), item["width"])
    parameters = sum(tensor.numel() for tensor in architecture(item["first"]).parameters())
    step = min(networks_at_once(parameters), largest)
    for start in range(item["first"], item["last"], step):
        indices = range(start, min(start + step, item["last"]))
        yield draw(architecture, indices, prepare=safe).to(context.device, context.dtype), indices


def probing_points(context: Any, item: dict[str, Any], indices: range) -> Tensor:
    """Probing inputs (networks, inputs, *shape); each network's come from a stream of its own."""
    shape, count = context.architecture.shape, item["inputs"]
    if item["probing"] == "zero":
        return torch.zeros(len(indices), count, *shape, device=context.device, dtype=context.dtype)
    streams = [context.generator("probing", index) for index in indices]
    if item["probing"] == "data":
        inputs = context.data.train.inputs
        chosen = torch.stack(
            [
                torch.randint(len(inputs), (count,), generator=stream, device="cpu")
                for stream in streams
            ]
        )
        return inputs[chosen.to(inputs.device)]
    points = torch.stack(
        [torch.randn(count, *shape, generator=stream, device="cpu") for stream in streams]
    )
    return (item["scale"] * points).to(context.device, context.dtype)


def sized(architecture: Any, width: int | None) -> Any:
    """The architecture with another width: every entry of `widths` or `hidden`, or `channels`, or `width`, whichever it has."""
    if width is None:
        return architecture
    import attrs

    options = architecture.component.options()
    for name in ("widths", "channels", "width", "hidden"):
        if name in options:
            several = isinstance(options[name], tuple)
            value = (width,) * len(options[name]) if several else width
            return attrs.evolve(
                architecture, component=attrs.evolve(architecture.component, **{name: value})
            )
    raise penchant.Error(
        f"architecture {architecture.label!r} has no width: expected an option widths, channels, width or hidden, found {sorted(options)}"
    )


def stacked(module: Any, states: list[dict[str, Tensor]]) -> Ensemble:
    """Trained networks of one architecture as an ensemble."""
    return Ensemble(
        safe(module).requires_grad_(False),
        {name: torch.stack([state[name] for state in states]) for name in states[0]},
        "trained",
    )


def tensors_of(network: Any) -> dict[str, Tensor]:
    """A copy of the parameters and buffers of a network."""
    return {
        name: tensor.detach().clone()
        for name, tensor in [*network.named_parameters(), *network.named_buffers()]
    }


def uncentred(inputs: Tensor) -> Tensor:
    """S = sum_mu x_mu x_mu^T (D, D) of inputs, in double precision: one matrix product."""
    rows = inputs.flatten(1).to(torch.float64)
    return rows.T @ rows
