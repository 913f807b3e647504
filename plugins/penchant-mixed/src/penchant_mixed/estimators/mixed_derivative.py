"""Shards of networks, each giving its sum of M^T M, or of M^T M V where the matrix is too large."""

import math
from collections.abc import Iterator

import penchant
import torch
from penchant_numerics.device import safe
from penchant_numerics.inputs import GroupedMoment, MixedDerivative, State, normal
from penchant_numerics.linear_algebra import (
    Applied,
    Eigenpairs,
    block_krylov_pairs,
    descending_eigh,
)
from penchant_numerics.roles import Directions
from penchant_numerics.statistics import mean_and_stderr
from penchant_numerics.training import draw
from torch import Tensor

from penchant_mixed import declarations

LARGEST_MATRIX = 8192  # inputs; the matrix takes 512 MiB
PROBES = 4  # random signs per network for the trace, where the matrix is not formed


def estimate(
    options: declarations.MixedDerivative, context: penchant.Context, *, networks: int
) -> Directions:
    """Estimator of the role `directions`."""
    architecture = context.architecture
    size = math.prod(architecture.shape)
    if architecture.outputs > 2:
        actual = f"found {architecture.outputs} outputs"
        raise penchant.Error(f"mixed-derivative needs one output or two logits, {actual}")
    # The whole matrix where it fits, else the requested number of pairs.
    if options.leading is None and size > LARGEST_MATRIX:
        need = f"the whole matrix of {size} inputs takes {8 * size**2 / 2**30:.1f} GiB"
        raise penchant.Error(f"{need}: set leading = k for the first k directions")
    if options.leading is not None and options.leading > size:
        most = f"leading must be at most {size}, the number of inputs"
        raise penchant.Error(f"{most}, found {options.leading}")
    find = _whole if options.leading is None else _leading
    return find(options, context, size, networks)


def _a_shard(networks: int) -> int:
    """At least four networks per shard and at most 64 shards: each stores a matrix on disk."""
    fewest = math.ceil(networks / 64)
    return max(4, fewest)


def _point(context: penchant.Context, index: int) -> Tensor:
    """The point of network number `index`: what one point shows would be in no error."""
    options: declarations.MixedDerivative = context.options
    shape = context.architecture.shape
    if options.point == "zero":
        return torch.zeros(shape, device=context.device, dtype=context.dtype)
    generator = context.generator("point", context.architecture.first + index)
    noise = normal(shape, generator, torch.device("cpu"))
    return noise.to(context.device, context.dtype)


def _conventions(
    options: declarations.MixedDerivative, context: penchant.Context
) -> dict[str, str]:
    where = "at zero"
    if options.point == "gaussian":
        where = "at a Gaussian point of scale 1 for each network"
    how = "exact" if options.method == "exact" else f"finite differences of step {options.step:g}"
    one = context.architecture.outputs == 1
    return {
        "second moment": "E[M^T M], M = d^2 f / d theta d x, all parameters",
        "mixed derivative": f"{how} {where}",
        "output": "the only one" if one else "second logit minus first",
        "batch-norm": "running statistics",
    }


def _whole(
    options: declarations.MixedDerivative, context: penchant.Context, size: int, networks: int
) -> Directions:
    """The matrix, summed shard by shard into groups whose leaving out tells errors."""
    groups = GroupedMoment(size, device=context.device)
    shards = context.map(gram_sum, networks=networks, shard_size=_a_shard(networks))
    # Shards go to the groups in turn.
    for number, shard in enumerate(shards):
        group = groups.groups[number % len(groups.groups)]
        group.merge(
            {
                "outer": shard["gram"],
                "total": torch.zeros_like(group.total),
                "squared-norms": shard["traces"],
            }
        )
    moment = groups.whole()
    matrix = moment.matrix()
    eigenvalues, vectors = descending_eigh(matrix)
    _, stderr = mean_and_stderr(moment.norms())
    return Directions(
        eigenvalues,
        vectors,
        trace=float(matrix.trace()),
        trace_stderr=None if stderr is None else float(stderr),
        networks=moment.count,
        matrix=matrix,
        jackknife=groups.left_out(centred=False, rank=size),
        conventions=_conventions(options, context),
    )


def _leading(
    options: declarations.MixedDerivative, context: penchant.Context, size: int, networks: int
) -> Directions:
    """A few pairs, by products that pass over all networks."""
    assert options.leading is not None  # else all pairs are taken
    shard_size = _a_shard(networks)
    shards = context.map(trace_estimates, networks=networks, shard_size=shard_size)
    # The trace, from random signs, because no diagonal is formed.
    traces = torch.cat([torch.as_tensor(shard["traces"], device="cpu") for shard in shards])

    def mean_product(vectors: Tensor) -> Tensor:
        # One pass over all networks.
        shared = {"vectors": vectors}
        shards = context.map(product_sum, networks=networks, shard_size=shard_size, shared=shared)
        total = torch.zeros_like(vectors)
        for shard in shards:
            total = total + torch.as_tensor(shard["products"], device="cpu")
        return total / networks

    moment = Applied(size, mean_product, device="cpu", dtype=torch.float64)
    pairs = block_krylov_pairs(
        moment,
        options.leading,
        generator=context.generator("start"),
        passes=options.iterations,
        tolerance=options.tolerance,
    )
    mean, stderr = mean_and_stderr(traces)
    return Directions(
        pairs.values,
        pairs.vectors.T,
        trace=float(mean),
        trace_stderr=None if stderr is None else float(stderr),
        networks=networks,
        residuals=pairs.residuals,
        conventions={
            **_conventions(options, context),
            "pairs": f"block Krylov, {pairs.passes} passes",
        },
        warnings=_unconverged(options, pairs),
    )


def _unconverged(options: declarations.MixedDerivative, pairs: Eigenpairs) -> tuple[str, ...]:
    if bool(pairs.converged.all()):
        return ()
    # The tolerance is relative to the first eigenvalue.
    worst = float(pairs.residuals.max() / pairs.values[0])
    what = f"the {options.leading} leading pairs have not converged in {pairs.passes} passes"
    how_far = f"largest residual {worst:.2g} of the first eigenvalue"
    requested = f"tolerance {options.tolerance:g}"
    return (f"{what}: {how_far}, {requested}; raise iterations",)


def _networks(context: penchant.Context, indices: range) -> Iterator[tuple[MixedDerivative, State]]:
    """The operator at the point of each of a shard's networks, and the network's state."""
    options: declarations.MixedDerivative = context.options
    sampled = draw(context.architecture, indices, prepare=safe)
    networks = sampled.to(context.device, context.dtype)
    # Without a step the derivative is exact.
    step = options.step if options.method == "finite-difference" else None
    for number, index in enumerate(indices):
        state = {name: stacked[number] for name, stacked in networks.state.items()}
        yield MixedDerivative(networks.module, _point(context, index), step=step), state


def gram_sum(context: penchant.Context, indices: range) -> dict[str, Tensor]:
    """Sum of M^T M over a shard's networks, and the trace of each."""
    size = math.prod(context.architecture.shape)
    total = torch.zeros(size, size, device=context.device, dtype=torch.float64)
    traces = []
    # Summed in double precision, whatever the networks have.
    for mixed, state in _networks(context, indices):
        gram = mixed.gram(state).to(total.dtype)
        total += gram
        traces.append(gram.trace())
    return {"gram": total, "traces": torch.stack(traces)}


def product_sum(context: penchant.Context, indices: range) -> dict[str, Tensor]:
    """Sum of M^T M v over a shard's networks, for all vectors v, (vectors, D)."""
    vectors = context.shared["vectors"].to(context.dtype)
    total = torch.zeros(vectors.shape, device=context.device, dtype=torch.float64)
    for mixed, state in _networks(context, indices):
        total += mixed.gram_times(state, vectors)
    return {"products": total}


def trace_estimates(context: penchant.Context, indices: range) -> dict[str, Tensor]:
    """For every network the mean of |M z|^2 over random signs z: its expectation is Tr M^T M."""
    traces = []
    for index, (mixed, state) in zip(indices, _networks(context, indices)):
        # A network has its signs whatever shard it is in.
        coins = torch.randint(
            2, (PROBES, mixed.size), generator=context.generator("trace", index), device="cpu"
        )
        signs = 2 * coins - 1
        images = mixed.apply(state, signs.to(context.device, context.dtype))
        squares = [image.double().square().sum() for image in images.values()]
        first, *others = squares
        traces.append(sum(others, start=first) / PROBES)
    return {"traces": torch.stack(traces)}
