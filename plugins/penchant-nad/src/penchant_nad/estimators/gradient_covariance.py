"""Gradients of shards of networks, streamed into one second moment."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator

import penchant
import torch
from penchant_numerics.device import memory
from penchant_numerics.inputs import (
    GroupedMoment,
    by_rows,
    chunk_size,
    directions_of,
    directions_of_rows,
    finite_differences,
    impulse_responses,
    input_gradients,
    left_out_spectra,
    normal,
)
from penchant_numerics.roles import Directions
from penchant_numerics.training import Ensemble, draw_ahead, parameter_count
from torch import Tensor

from penchant_nad.declarations.directions import GradientCovariance

SHARD = 32  # networks per shard
MANY_INPUTS = 10_000  # finite differences in more take long, where one backward pass would do
STACK = 0.25  # of the budget, for stacked parameters; activations need the rest


def estimate(
    options: GradientCovariance, context: penchant.Context, *, networks: int
) -> Directions:
    """Estimator of the role `directions`."""
    architecture = context.architecture
    if architecture.outputs > 2:
        raise penchant.Error(
            "gradient-covariance needs one output or two logits, "
            f"found {architecture.outputs} outputs"
        )
    samplers: set[str] = set()
    rows = _gradients_of_shards(context, networks, samplers)
    size = torch.Size(architecture.shape).numel()
    if options.method == "finite-difference" and size > MANY_INPUTS:
        context.warn(
            f"finite differences in {size} inputs take {2 * size} forward passes per network; "
            "method=autograd takes one backward pass"
        )
    # Large inputs and few networks: their gradients say all, and are smaller than the matrix.
    if by_rows(networks, size):
        together = torch.cat(list(rows))
        moment = directions_of_rows(together, centred=options.centred)
    else:
        moment = _streamed(rows, networks, size, centred=options.centred)
    conventions = _conventions(options, outputs=architecture.outputs, samplers=samplers)
    return dataclasses.replace(moment, conventions=conventions)


def _gradients_of_shards(
    context: penchant.Context[GradientCovariance], networks: int, samplers: set[str]
) -> Iterator[Tensor]:
    """Gradients (networks, D) of one shard after another; notes how networks were sampled."""
    shards = context.map(
        gradients,
        networks=networks,
        shard_size=SHARD,
        shared={"point": shared_point(context.options, context)},
    )
    for shard in shards:
        samplers.add(shard["sampler"])
        yield torch.as_tensor(shard["gradients"], device=context.device)


def _streamed(rows: Iterator[Tensor], networks: int, size: int, *, centred: bool) -> Directions:
    """Directions of the matrix: gradients are added to it and forgotten, but for the last few."""
    first = next(rows)
    _refuse_what_does_not_fit(size, first.device)
    moment = GroupedMoment(size, device=first.device)
    latest = first[:0]
    for shard in itertools.chain([first], rows):
        moment.add(shard)
        latest = torch.cat([latest, shard])[-len(moment.groups) :]
    directions = directions_of(moment, centred=centred)
    # Groups of unequal size would be taken for spread.
    if networks % len(moment.groups):
        spectra = left_out_spectra(
            moment, latest, centred=centred, rank=len(directions.eigenvalues)
        )
        directions = dataclasses.replace(directions, jackknife=spectra)
    return directions


def _refuse_what_does_not_fit(size: int, device: torch.device) -> None:
    # The sum, the moment of all groups, and what a decomposition needs.
    needed = 6 * 8 * size**2
    memory.require(
        needed,
        device,
        what=f"the second moment of {size} inputs",
        hint="draw fewer networks than inputs, whose gradients are stored instead",
    )


def _conventions(
    options: GradientCovariance, *, outputs: int, samplers: set[str]
) -> dict[str, str]:
    uncentred = "uncentred (the definition)"
    return {
        "second moment": "centred (the published code)" if options.centred else uncentred,
        "gradient": _gradient(options),
        "output": "the only one" if outputs == 1 else "second logit minus first",
        "sampler": " and ".join(sorted(samplers)),
    }


def _gradient(options: GradientCovariance) -> str:
    if options.method == "impulse":
        return "impulse: odd part of the bias-free network's response to single pixels"
    # The other two are taken at a point.
    where = "at zero"
    if options.point == "gaussian":
        where = "at a Gaussian point of scale 1 shared by all networks"
    if options.method == "autograd":
        return f"autograd {where}"
    return f"finite differences of step {options.step:g} {where}"


def shared_point(options: GradientCovariance, context: penchant.Context) -> Tensor:
    """The point of all networks, sampled once, in single precision."""
    shape = context.architecture.shape
    if options.point == "zero":
        return torch.zeros(shape, device="cpu")
    return normal(shape, context.generator("point"), torch.device("cpu"))


def gradients(context: penchant.Context, indices: range) -> dict[str, Tensor | str]:
    """Gradients (networks, D) of one shard: smaller than the matrix they are merged into."""
    together = _networks_at_once(context, indices[0])
    starts = range(0, len(indices), together)
    blocks = [indices[start : start + together] for start in starts]
    rows, samplers = [], set()
    report = context.progress(len(indices), "networks of a shard")
    done = 0
    for sampled in draw_ahead(context.architecture, blocks):
        samplers.add(sampled.sampler)
        for chunk in _reported_chunks(context.options, sampled):
            rows.append(_gradients_of(context, chunk))
            done += len(chunk)
            report(done)
    return {"gradients": torch.cat(rows), "sampler": " and ".join(sorted(samplers))}


def _reported_chunks(options: GradientCovariance, sampled: Ensemble) -> Iterable[Ensemble]:
    """Differences go network by network, and take long: each is reported."""
    if options.method == "autograd":
        return [sampled]
    return sampled.split(1)


def _networks_at_once(context: penchant.Context, first: int) -> int:
    """As many networks as the budget has room for."""
    bytes_each = 4 * parameter_count(context.architecture, first)
    room = memory.fitting(bytes_each, context.device, share=STACK)
    # An accelerator computes on some networks while the next ones are sampled.
    most = SHARD if context.device.type == "cpu" else SHARD // 4
    return min(most, room)


def _gradients_of(context: penchant.Context[GradientCovariance], sampled: Ensemble) -> Tensor:
    """Gradients (networks, D) of sampled networks, as many passes at once as memory allows."""
    options = context.options
    point = context.shared["point"].to(context.dtype)
    networks = sampled.to(context.device, context.dtype)

    def take(chunk: int) -> Tensor:
        return _take_gradients(options, networks, point, chunk)

    # Gradients take networks at a time, differences take images.
    if options.method == "autograd":
        return memory.halving(take, SHARD, what="networks per pass")
    return memory.halving(take, chunk_size(context.device), what="images per pass")


def _take_gradients(
    options: GradientCovariance, networks: Ensemble, point: Tensor, chunk: int
) -> Tensor:
    if options.method == "impulse":
        return impulse_responses(networks, tuple(point.shape), like=point, chunk=chunk)
    if options.method == "finite-difference":
        return finite_differences(networks, point, step=options.step, chunk=chunk)
    chunks = [input_gradients(some, point[None])[:, 0] for some in networks.split(chunk)]
    return torch.cat(chunks)
