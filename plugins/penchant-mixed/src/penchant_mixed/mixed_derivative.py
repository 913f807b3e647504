"""Shards of networks, each giving its sum of M^T M, or of M^T M V where the matrix is too large."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from typing import Any

import penchant
import torch
from penchant_numerics.ensembles import draw
from penchant_numerics.mixed import MixedDerivative, State
from penchant_numerics.moments import Directions, GroupedMoment, descending_eigh
from penchant_numerics.safety import safe
from torch import Tensor

from penchant_mixed._block_krylov import leading_pairs

LARGEST_MATRIX = 8192  # inputs; the matrix takes 512 MiB
PROBES = 4  # random signs a network for the trace, where the matrix is not formed


def estimate(options: Any, context: Any, *, networks: int) -> Directions:
    """Estimator of the role `directions`."""
    architecture = context.architecture
    size = math.prod(architecture.shape)
    if architecture.outputs > 2:
        raise penchant.Error(
            f"mixed-derivative needs one output or two logits, found {architecture.outputs} outputs"
        )
    if options.leading is None and size > LARGEST_MATRIX:
        need = f"{8 * size**2 / 2**30:.1f} GiB"
        raise penchant.Error(
            f"the whole matrix of {size} inputs takes {need}: set leading = k for the first k directions"
        )
    if options.leading is not None and options.leading > size:
        raise penchant.Error(
            f"leading must be at most {size}, the number of inputs, found {options.leading}"
        )
    items = _items(options, context, networks)
    find = _whole if options.leading is None else _leading
    return find(options, context, items, size)


def _items(options: Any, context: Any, samples: int) -> list[dict[str, Any]]:
    """At least four networks a shard and at most 64 shards: each keeps a matrix on the disk until the job is done."""
    point = torch.zeros(context.architecture.shape, device="cpu")
    if options.point == "gaussian":
        point = options.point_scale * torch.randn(
            point.shape, generator=context.generator("point"), device="cpu"
        )
    shard = max(4, math.ceil(samples / 64))
    step = options.step if options.method == "finite-difference" else None
    shared = {"point": point.flatten().tolist(), "step": step}
    return [
        {**shared, "first": first, "last": min(first + shard, samples)}
        for first in range(0, samples, shard)
    ]


def _conventions(options: Any, context: Any) -> dict[str, str]:
    where = (
        "at zero"
        if options.point == "zero"
        else f"at a Gaussian point of scale {options.point_scale:g} shared by all networks"
    )
    how = "exact" if options.method == "exact" else f"finite differences of step {options.step:g}"
    return {
        "second moment": "E[M^T M], M = d^2 f / d theta d x, all parameters",
        "mixed derivative": f"{how} {where}",
        "output": "the only one"
        if context.architecture.outputs == 1
        else "second logit minus first",
        "batch-norm": "running statistics",
    }


def _whole(options: Any, context: Any, items: list[dict[str, Any]], size: int) -> Directions:
    groups = GroupedMoment(size, device=context.device)
    for number, shard in enumerate(context.map(gram_sum, items)):
        part = groups.parts[number % len(groups.parts)]
        part.merge(
            {
                "outer": shard["gram"],
                "total": torch.zeros_like(part.total),
                "squared-norms": shard["traces"],
            }
        )
    moment = groups.whole()
    matrix, traces = moment.matrix(), moment.norms()
    eigenvalues, vectors = descending_eigh(matrix)
    return Directions(
        eigenvalues,
        vectors,
        trace=float(matrix.trace()),
        trace_stderr=_stderr(traces),
        networks=moment.count,
        matrix=matrix,
        jackknife=groups.left_out(centred=False, rank=size),
        conventions=_conventions(options, context),
    )


def _leading(options: Any, context: Any, items: list[dict[str, Any]], size: int) -> Directions:
    samples = items[-1]["last"]
    traces = torch.cat(
        [
            torch.as_tensor(shard["traces"], device="cpu")
            for shard in context.map(trace_estimates, items)
        ]
    )

    def mean_product(vectors: Tensor) -> Tensor:
        sent = as_text(vectors)
        shards = context.map(product_sum, [{**item, "vectors": sent} for item in items])
        return sum(torch.as_tensor(shard["products"], device="cpu") for shard in shards) / samples

    pairs = leading_pairs(
        mean_product,
        size,
        options.leading,
        generator=context.generator("start"),
        passes=options.iterations,
        tolerance=options.tolerance,
    )
    worst = float(pairs.residuals.max() / pairs.eigenvalues[0])
    warnings = () if pairs.converged else (_not_converged(options, pairs.passes, worst),)
    return Directions(
        pairs.eigenvalues,
        pairs.vectors,
        trace=float(traces.mean()),
        trace_stderr=_stderr(traces),
        networks=samples,
        residuals=pairs.residuals,
        conventions={
            **_conventions(options, context),
            "pairs": f"block Krylov, {pairs.passes} passes",
        },
        warnings=warnings,
    )


def _not_converged(options: Any, passes: int, worst: float) -> str:
    return (
        f"the {options.leading} leading pairs have not converged in {passes} passes: largest residual {worst:.2g} of the first "
        f"eigenvalue, asked for {options.tolerance:g}; raise iterations"
    )


def _stderr(values: Tensor) -> float | None:
    return float(values.std() / math.sqrt(len(values))) if len(values) > 1 else None


def _networks(context: Any, item: dict[str, Any]) -> tuple[MixedDerivative, Iterator[State]]:
    """The operator of an architecture, and the states of a shard's networks."""
    networks = draw(context.architecture, range(item["first"], item["last"]), prepare=safe).to(
        context.device, context.dtype
    )
    point = torch.tensor(item["point"], device=context.device, dtype=context.dtype).reshape(
        context.architecture.shape
    )
    states = (
        {name: stacked[number] for name, stacked in networks.state.items()}
        for number in range(len(networks))
    )
    return MixedDerivative(networks.module, point, step=item["step"]), states


def gram_sum(context: Any, item: dict[str, Any]) -> dict[str, Tensor]:
    """Sum of M^T M over a shard's networks, and the trace of each."""
    mixed, states = _networks(context, item)
    total = torch.zeros(mixed.size, mixed.size, device=context.device, dtype=torch.float64)
    traces = []
    for state in states:
        gram = mixed.gram(state).to(total.dtype)
        total += gram
        traces.append(gram.trace())
    return {"gram": total, "traces": torch.stack(traces)}


def product_sum(context: Any, item: dict[str, Any]) -> dict[str, Tensor]:
    """Sum of M^T M v over a shard's networks, for all vectors v, (vectors, D)."""
    mixed, states = _networks(context, item)
    vectors = from_text(item["vectors"], mixed.size).to(context.device, context.dtype)
    total = torch.zeros(vectors.shape, device=context.device, dtype=torch.float64)
    for state in states:
        total += mixed.gram_times(state, vectors)
    return {"products": total}


def trace_estimates(context: Any, item: dict[str, Any]) -> dict[str, Tensor]:
    """For every network of a shard the mean of |M z|^2 over random signs z, whose expectation is the trace of M^T M."""
    mixed, states = _networks(context, item)
    traces = []
    for index, state in enumerate(states, item["first"]):
        signs = torch.randint(
            2, (PROBES, mixed.size), generator=context.generator("trace", index), device="cpu"
        )
        images = mixed.apply(state, (2 * signs - 1).to(context.device, context.dtype))
        traces.append(sum(image.double().square().sum() for image in images.values()) / PROBES)
    return {"traces": torch.stack(traces)}


def as_text(vectors: Tensor) -> str:
    """Vectors as an item of a map can carry them: a third of the size of a list of decimal numbers."""
    return base64.b64encode(vectors.to(torch.float64).contiguous().numpy().tobytes()).decode()


def from_text(text: str, size: int) -> Tensor:
    """What `as_text` wrote."""
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.float64).reshape(
        -1, size
    )
