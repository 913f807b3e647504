"""Gradients of shards of networks, streamed into one second moment."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import penchant
import torch
from penchant_numerics.answers import Directions
from penchant_numerics.derivatives import (
    chunk_size,
    finite_differences,
    impulse_responses,
    input_gradients,
)
from penchant_numerics.ensembles import Ensemble, draw
from penchant_numerics.moments import GroupedMoment, directions_of
from torch import Tensor

from penchant_nad.declarations.directions import GradientCovariance
from penchant_nad.numerics.equal_parts import left_out_spectra

SHARD = 32  # networks a shard


def estimate(
    options: GradientCovariance, context: penchant.Context, *, networks: int
) -> Directions:
    """Estimator of the role `directions`."""
    architecture = context.architecture
    if architecture.outputs > 2:
        found = f"found {architecture.outputs} outputs"
        raise penchant.Error(f"gradient-covariance needs one output or two logits, {found}")
    size = torch.Size(architecture.shape).numel()
    moment = GroupedMoment(size, device=context.device)
    latest = torch.zeros(0, size, device=context.device)
    drawers = set()

    # Gradients are added to the moment and forgotten, but for the last few.
    point = shared_point(options, context)
    shards = context.map(
        gradients,
        networks=networks,
        a_shard=SHARD,
        shared={"point": point},
    )
    for shard in shards:
        rows = torch.as_tensor(shard["gradients"], device=context.device)
        moment.add(rows)
        latest = torch.cat([latest.to(rows), rows])[-len(moment.parts) :]
        drawers.add(shard["drawer"])

    conventions = _conventions(
        options,
        outputs=architecture.outputs,
        drawers=drawers,
    )
    found = directions_of(
        moment,
        centred=options.centred,
        conventions=conventions,
    )
    # Parts that differ by a network would be taken for spread.
    if networks % len(moment.parts):
        spectra = left_out_spectra(
            moment, latest, centred=options.centred, rank=len(found.eigenvalues)
        )
        found = dataclasses.replace(found, jackknife=spectra)
    return found


def _conventions(options: GradientCovariance, *, outputs: int, drawers: set[str]) -> dict[str, str]:
    uncentred = "uncentred (the definition)"
    return {
        "second moment": "centred (the published code)" if options.centred else uncentred,
        "gradient": _gradient(options),
        "output": "the only one" if outputs == 1 else "second logit minus first",
        "drawer": " and ".join(sorted(drawers)),
    }


def _gradient(options: GradientCovariance) -> str:
    if options.method == "impulse":
        return "impulse: odd part of the bias-free network's answer to single pixels"
    # The other two are taken at a point.
    where = "at zero"
    if options.point == "gaussian":
        where = f"at a Gaussian point of scale {options.point_scale:g} shared by all networks"
    if options.method == "autograd":
        return f"autograd {where}"
    return f"finite differences of step {options.step:g} {where}"


def shared_point(options: GradientCovariance, context: penchant.Context) -> Tensor:
    """The point of all networks, drawn once, in single precision."""
    shape = context.architecture.shape
    if options.point == "zero":
        return torch.zeros(shape, device="cpu")
    noise = torch.randn(
        shape,
        generator=context.generator("point"),
        device="cpu",
    )
    return options.point_scale * noise


def gradients(context: penchant.Context, indices: range) -> dict[str, Tensor | str]:
    """Gradients (networks, D) of one shard: smaller than the matrix they are merged into."""
    options: GradientCovariance = context.options
    point = context.shared["point"].to(context.dtype)
    drawn = draw(context.architecture, indices)
    networks = drawn.to(context.device, context.dtype)

    def take(chunk: int) -> Tensor:
        return _take_gradients(
            options,
            networks,
            point,
            chunk,
        )

    # Gradients take networks at a time, differences take images.
    chunk = SHARD if options.method == "autograd" else chunk_size(context.device)
    return {"gradients": in_memory(take, chunk, context.warn), "drawer": drawn.drawer}


def _take_gradients(
    options: GradientCovariance, networks: Ensemble, point: Tensor, chunk: int
) -> Tensor:
    if options.method == "impulse":
        return impulse_responses(
            networks,
            tuple(point.shape),
            like=point,
            chunk=chunk,
        )
    if options.method == "finite-difference":
        return finite_differences(
            networks,
            point,
            step=options.step,
            chunk=chunk,
        )
    parts = [input_gradients(part, point[None])[:, 0] for part in networks.split(chunk)]
    return torch.cat(parts)


def in_memory(function: Callable[[int], Tensor], chunk: int, warn: Callable[[str], None]) -> Tensor:
    """`function(chunk)`; where memory does not suffice, with half the chunk, and that is told."""
    while True:
        try:
            return function(chunk)
        except torch.OutOfMemoryError:
            if chunk < 4:
                raise
            half = chunk // 2
            warn(f"out of memory: chunk halved from {chunk} to {half}; last bits may differ")
            chunk = half
