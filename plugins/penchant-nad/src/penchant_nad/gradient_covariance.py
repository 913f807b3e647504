"""Gradients of shards of networks, streamed into one second moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penchant
import torch
from penchant_numerics.derivatives import (
    chunk_size,
    finite_differences,
    impulse_responses,
    input_gradients,
)
from penchant_numerics.ensembles import draw
from penchant_numerics.moments import Directions, GroupedMoment, directions_of

SHARD = 32  # networks a shard


def estimate(options: Any, context: Any, *, networks: int) -> Directions:
    """Estimator of the role `directions`."""
    if context.architecture.outputs > 2:
        raise penchant.Error(
            f"gradient-covariance needs one output or two logits, found {context.architecture.outputs} outputs"
        )
    size = torch.Size(context.architecture.shape).numel()
    moment = GroupedMoment(size, device=context.device)
    point = _point(options, context)
    method = {key: getattr(options, key) for key in ("method", "step")}
    items = [
        {
            **method,
            "point": point.flatten().tolist(),
            "first": first,
            "last": min(first + SHARD, networks),
        }
        for first in range(0, networks, SHARD)
    ]
    drawers = set()
    for shard in context.map(gradients, items):
        moment.add(torch.as_tensor(shard["gradients"], device=context.device))
        drawers.add("replayed" if shard["replayed"] else "constructed")
    conventions = {
        "second moment": "centred (the published code)"
        if options.centred
        else "uncentred (the definition)",
        "gradient": _gradient(options),
        "output": "the only one"
        if context.architecture.outputs == 1
        else "second logit minus first",
        "drawer": " and ".join(sorted(drawers)),
    }
    return directions_of(moment, centred=options.centred, conventions=conventions)


def _gradient(options: Any) -> str:
    where = (
        "at zero"
        if options.point == "zero"
        else f"at a Gaussian point of scale {options.point_scale:g} shared by all networks"
    )
    if options.method == "impulse":
        return "impulse: odd part of the bias-free network's answer to single pixels"
    return (
        f"finite differences of step {options.step:g} {where}"
        if options.method == "finite-difference"
        else f"autograd {where}"
    )


def _point(options: Any, context: Any) -> torch.Tensor:
    """The point shared by all networks; it goes to the shards with their items, so that no shard draws it again."""
    shape = context.architecture.shape
    if options.point == "zero":
        return torch.zeros(shape, device="cpu")
    return options.point_scale * torch.randn(
        shape, generator=context.generator("point"), device="cpu"
    )


def gradients(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Gradients (networks, D) of one shard: smaller than the matrix they are merged into."""
    point = torch.tensor(item["point"], device=context.device, dtype=context.dtype).reshape(
        context.architecture.shape
    )
    networks = draw(context.architecture, range(item["first"], item["last"]))
    drawer = networks.drawer
    networks = networks.to(context.device, context.dtype)
    methods = {
        "autograd": lambda chunk: torch.cat(
            [input_gradients(part, point[None])[:, 0] for part in networks.split(chunk)]
        ),
        "impulse": lambda chunk: impulse_responses(
            networks, tuple(point.shape), like=point, chunk=chunk
        ),
        "finite-difference": lambda chunk: finite_differences(
            networks, point, step=item["step"], chunk=chunk
        ),
    }
    chunk = SHARD if item["method"] == "autograd" else chunk_size(context.device)
    return {
        "gradients": in_memory(methods[item["method"]], chunk, context.warn),
        "replayed": drawer == "replayed",
    }


def in_memory(
    function: Callable[[int], torch.Tensor], chunk: int, warn: Callable[[str], None]
) -> torch.Tensor:
    """`function(chunk)`; where the device's memory does not suffice, with half the chunk, and so on, which is told."""
    while True:
        try:
            return function(chunk)
        except torch.OutOfMemoryError:
            if chunk < 4:
                raise
            warn(f"out of memory: chunk halved from {chunk} to {chunk // 2}; last bits may differ")
            chunk //= 2
