"""Gradients of shards of networks, streamed into one second moment."""

from __future__ import annotations

from typing import Any

import penchant
import torch
from penchant_numerics.derivatives import finite_differences, impulse_responses, input_gradients
from penchant_numerics.ensembles import draw
from penchant_numerics.moments import Directions, GroupedMoment, directions_of

SHARD = 32  # networks a shard


def estimate(options: Any, context: Any, *, samples: int) -> Directions:
    """Estimator of the role `directions`."""
    if context.architecture.outputs > 2:
        raise penchant.Error(f"gradient-covariance needs one output or two logits, found {context.architecture.outputs} outputs")
    size = torch.Size(context.architecture.shape).numel()
    moment = GroupedMoment(size, device=context.device)
    point = _point(options, context)
    method = {key: getattr(options, key) for key in ("method", "step")}
    items = [
        {**method, "point": point.flatten().tolist(), "first": first, "last": min(first + SHARD, samples)}
        for first in range(0, samples, SHARD)
    ]
    drawers = set()
    for shard in context.map(gradients, items):
        moment.add(torch.as_tensor(shard["gradients"], device=context.device))
        drawers.add("replayed" if shard["replayed"] else "constructed")
    conventions = {
        "second moment": "centred (the published code)" if options.centred else "uncentred (the definition)",
        "gradient": _gradient(options),
        "output": "the only one" if context.architecture.outputs == 1 else "second logit minus first",
        "drawer": " and ".join(sorted(drawers)),
    }
    return directions_of(moment, centred=options.centred, conventions=conventions)


def _gradient(options: Any) -> str:
    where = "at zero" if options.point == "zero" else f"at a Gaussian point of scale {options.point_scale:g} shared by all networks"
    if options.method == "impulse":
        return "impulse: odd part of the bias-free network's answer to single pixels"
    return f"finite differences of step {options.step:g} {where}" if options.method == "finite-difference" else f"autograd {where}"


def _point(options: Any, context: Any) -> torch.Tensor:
    """The point shared by all networks; it goes to the shards with their items, so that no shard draws it again."""
    shape = context.architecture.shape
    if options.point == "zero":
        return torch.zeros(shape, device="cpu")
    return options.point_scale * torch.randn(shape, generator=context.generator("point"), device="cpu")


def gradients(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Gradients (networks, D) of one shard: smaller than the matrix they are merged into."""
    point = torch.tensor(item["point"], device=context.device, dtype=context.dtype).reshape(context.architecture.shape)
    networks = draw(context.architecture, range(item["first"], item["last"]))
    drawer = networks.drawer
    networks = networks.to(context.device, context.dtype)
    if item["method"] == "autograd":
        found = input_gradients(networks, point[None])[:, 0]
    elif item["method"] == "impulse":
        found = impulse_responses(networks, tuple(point.shape), like=point)
    else:
        found = finite_differences(networks, point, step=item["step"])
    return {"gradients": found, "replayed": drawer == "replayed"}
