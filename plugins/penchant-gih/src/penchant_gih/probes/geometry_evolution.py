"""The probe `geometry-evolution`: Delta from the mixed derivative, and what it is aligned with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import attrs
import penchant
import torch
from penchant_numerics import statistics
from penchant_numerics.correlation import (
    Corr,
    RotatedCorr,
    corr_with_fixed,
    distinct_mean,
    jackknifed,
    rotated,
)
from penchant_numerics.data import Samples
from penchant_numerics.ensembles import Ensemble, State
from penchant_numerics.many_trainings import Learner, looks
from penchant_numerics.moments import descending_eigh
from torch import Tensor

from penchant_gih.declarations.estimators import AverageGeometry
from penchant_gih.declarations.geometry import GeometryEvolution
from penchant_gih.numerics.containment import containment, containment_null
from penchant_gih.numerics.evolution import (
    RESIDUALS,
    Evolution,
    Flow,
    batch_size,
    largest_stack,
    mixed_products,
)
from penchant_gih.numerics.geometry import PARTS, uncentred
from penchant_gih.numerics.gradients import probed_gradients, shard_size
from penchant_gih.numerics.projected import Projected
from penchant_gih.probes.missing import missing_names
from penchant_gih.probes.preferred_directions import independent_parts
from penchant_gih.probes.probing import (
    BATCH_NORM,
    calibration_points,
    drawn_networks,
    probing_points,
    probing_scale,
    stacked,
    stacks,
    tensors_of,
    with_statistics,
)

OVER = "networks (jackknife over parts)"
HOST = {"device": "cpu", "dtype": torch.float64}
SIZES = ("widths", "channels", "width", "hidden")  # options that are the width of an architecture
ROUNDING = 1 / math.sqrt(12)  # standard deviation of what is lost in a whole number
CONTAINED = 0.9  # share of the trace of G S G that the subspace of conjecture 2 has by default


class Contained(NamedTuple):
    """|P Delta P| / |Delta| by the dimension of P, and the dimension that was asked for."""

    dimensions: list[int]
    shares: list[Corr]
    nulls: list[float]
    chosen: int
    chosen_stderr: float | None


class Row(NamedTuple):
    """Everything about one Delta."""

    corr_s: Corr
    corr_s_null: RotatedCorr
    corr_gsg: Corr
    corr_gsg_null: RotatedCorr
    label_effect: Corr
    contained: Contained
    arrays: dict[str, Tensor]


def run(options: GeometryEvolution, context: penchant.Context) -> penchant.Result:
    """Measure every width, or every step of training, or the initialisation alone."""
    # Labels that are neither two classes nor numbers are refused before anything is drawn.
    _targets(context)
    # S is what G is projected with: that of the samples that drive the evolution.
    S = uncentred(_train(context).inputs)
    rows = []
    for width in options.widths or (None,):
        rows += _measured(options, sized(context, width), S)
    arrays = _arrays(rows)
    if options.widths is not None:
        arrays["widths"] = torch.tensor(options.widths, device="cpu")
    if options.at_steps is not None:
        arrays["steps"] = torch.tensor(options.at_steps, device="cpu")
    quantities = _quantities(rows[-1], options)
    missing = missing_names(context, arrays, quantities)
    return penchant.Result(
        quantities,
        arrays,
        conventions=_conventions(options),
        missing=missing,
    )


def _conventions(options: GeometryEvolution) -> dict[str, str]:
    flow = f"gradient flow on the summed {options.residual}"
    return {
        "evolution": f"{flow}, Delta = D + D^T, one output, labels +-1",
        "evolution probing": "normal inputs of each network's own, each with its opposite",
        "evolution batch-norm": BATCH_NORM[options.batch_norm],
        "S": "sum of x x^T over the training samples, uncentred",
        "corr": f"norms from {PARTS} independent parts of the networks; within 0.001 of +-1 the "
        "jackknife overstates the error, up to six times",
    }


def sized(context: penchant.Context, width: int | None) -> penchant.Context:
    """The context for networks of one output and another width.

    The width is every entry of `widths` or `hidden`, or `channels`, or `width`, whichever the
    architecture has.
    """
    if width is None:
        return context.scope(outputs=1)
    # The first option that is a width is the width.
    component = context.architecture.component
    options = component.options()
    for name in SIZES:
        if name in options:
            several = isinstance(options[name], tuple)
            value = (width,) * len(options[name]) if several else width
            narrower = attrs.evolve(component, **{name: value})
            return context.scope(
                architecture=narrower,
                outputs=1,
            )
    expected = "expected an option widths, channels, width or hidden"
    label = context.architecture.label
    raise penchant.Error(
        f"architecture {label!r} has no width: {expected}, found {sorted(options)}"
    )


def _train(context: penchant.Context) -> Samples:
    """The samples that drive the evolution."""
    train = context.data.train
    samples = context.options.samples
    return train if samples is None else train.select(slice(0, samples))


def _targets(context: penchant.Context) -> Tensor:
    """Labels as numbers, +-1 for two classes."""
    data = context.data
    labels = data.train.labels
    one_a_sample = labels[:1].numel() == 1
    if data.classes not in (0, 2) or not one_a_sample:
        raise penchant.Error(
            "geometry-evolution needs two classes or one number a sample as labels, "
            f"found {data.outputs} outputs"
        )
    numbers = labels.reshape(len(labels)).to(context.dtype)
    if data.classes == 2:
        return 2 * numbers - 1
    return numbers


def _measured(options: GeometryEvolution, context: penchant.Context, S: Tensor) -> list[Row]:
    """What there is to know at the initialisation, or at each step."""
    # One pair of sums a look: Delta, and what permuting labels changes in it.
    size = math.prod(context.architecture.shape)
    settings = {"device": context.device, "parts": PARTS}
    looks = 1 if options.at_steps is None else len(options.at_steps)
    found = []
    for _ in range(looks):
        evolution = Evolution(size, **settings)
        difference = Evolution(size, **settings)
        found.append((evolution, difference))
    a_shard = shard_size(size, 1)
    for shard in context.map(
        shard_evolution,
        networks=options.networks,
        a_shard=a_shard,
    ):
        # What a shard found, where it is summed.
        parts = {}
        for name, array in shard.items():
            parts[name] = torch.as_tensor(array, device=context.device)
        for number, (evolution, difference) in enumerate(found):
            gradients = parts["gradients"][number]
            evolution.add(parts["mixed"][number], gradients)
            difference.add(parts["difference"][number], gradients)

    # All looks are compared with the same G S G.
    projected = _projected(context, S)
    return [_row(*each, projected, S, context) for each in found]


def _projected(context: penchant.Context, S: Tensor) -> Projected:
    """G S G in parts; the networks are those of Delta where their parts are known to be the same.

    Noise that both have in common cancels in a Corr. From other estimators come other networks:
    G S G would contain the very gradients that Delta is made of.
    """
    networks = context.options.networks
    if not _same_networks(context):
        context = context.scope(first=networks)
    parts = independent_parts(context, networks).parts
    return Projected(parts, S.to(parts))


def _same_networks(context: penchant.Context) -> bool:
    """Whether network i is in part i mod PARTS of G, as it is of Delta."""
    estimator = context.estimator("directions")
    return isinstance(estimator.options, AverageGeometry)


def shard_evolution(context: penchant.Context, indices: range) -> dict[str, Tensor]:
    """Vectors of some networks at each step, (steps, networks, 2, D).

    `mixed` is v = M^T u, `difference` the part of it that permuting labels takes away, `gradients`
    are g.
    """
    # The same permutation for all networks: labels do not depend on them.
    train = _train(context)
    targets = _targets(context)
    targets = targets[: len(train.labels)]
    stream = context.generator("permutation")
    order = torch.randperm(
        len(targets),
        generator=stream,
        device="cpu",
    ).to(targets.device)
    permuted = targets[order]
    size = math.prod(context.architecture.shape)
    residual = RESIDUALS[context.options.residual]
    found: dict[str, list[Tensor]] = {"mixed": [], "difference": [], "gradients": []}
    # Some networks at a time, each at a pair of inputs of its own.
    largest = largest_stack(size)
    for networks, some in _networks(context, indices, largest):
        points = _opposite_points(context, some)
        a_network = points[0].numel()
        batch = batch_size(len(some), a_network, len(targets))
        flow = Flow(train.inputs, targets, permuted, residual, batch=batch)
        columns = [_vectors(ensemble, flow, points) for ensemble in networks]
        # From a list a step to an array a name.
        for name, column in zip(found, zip(*columns)):
            found[name].append(torch.stack(column))
    return {name: torch.cat(parts, dim=1) for name, parts in found.items()}


def _opposite_points(context: penchant.Context, indices: range) -> Tensor:
    """Probing inputs (networks, 2, *shape).

    The probing law is symmetric: a pair of opposite inputs halves the variance.
    """
    scale = probing_scale(context)
    points = probing_points(
        context,
        indices,
        inputs=1,
        probing="gaussian",
        scale=scale,
    )
    return torch.cat([points, -points], 1)


def _networks(
    context: penchant.Context, indices: range, largest: int
) -> Iterator[tuple[list[Ensemble], range]]:
    """Networks at the initialisation, or at each step of their trainings, and their numbers."""
    # At initialisation networks are drawn as a stack, which is much faster.
    options = context.options
    if options.at_steps is None:
        calibration = None
        if options.batch_norm == "calibrated":
            calibration = _calibration(context)
        for networks, some in drawn_networks(
            context,
            indices,
            largest=largest,
            calibration=calibration,
        ):
            yield [networks], some
        return
    for some in stacks(context, indices, largest=largest):
        yield _trained(context, some), some


def _calibration(context: penchant.Context) -> Any:
    law = {"probing": "gaussian", "scale": probing_scale(context)}
    return lambda index: calibration_points(context, index, **law)


def _trained(context: penchant.Context, indices: range) -> list[Ensemble]:
    """The networks of these numbers at each step of their trainings."""
    train = _train(context)
    steps = context.options.at_steps

    def begin(index: int) -> Learner:
        network = context.network(index)
        return Learner(network, train, (index,))

    def look(index: int, learner: Learner) -> tuple[int, State]:
        policy = context.options.batch_norm
        prepared = with_statistics(learner.network, policy, train.inputs)
        return learner.step, tensors_of(prepared)

    columns = looks(context, indices, begin, look, steps=steps)
    # A training that stopped early has stayed where it was.
    reached = min(column[-1][0] for column in columns)
    if reached < steps[-1]:
        raise penchant.Error(
            f"the training ended at step {reached}, expected to reach step {steps[-1]}"
        )
    # One stack of networks a step.
    module = context.network(indices[0])
    found = []
    for by_network in zip(*columns):
        states = [state for _, state in by_network]
        found.append(stacked(module, states))
    return found


def _vectors(ensemble: Ensemble, flow: Flow, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """v, what permuting labels takes from it, and g."""
    right, taken = flow.parameter_gradients(ensemble)
    mixed = mixed_products(ensemble, right, points)
    difference = mixed_products(ensemble, taken, points)
    gradients = probed_gradients(ensemble, points)
    return mixed, difference, gradients


def _row(
    evolution: Evolution,
    difference: Evolution,
    projected: Projected,
    S: Tensor,
    context: penchant.Context,
) -> Row:
    """Everything about one Delta."""
    # Products of parts are all that the correlations need.
    S = S.to(evolution.squares.device, evolution.squares.dtype)
    parts = evolution.parts()
    table = evolution.table()
    delta = evolution.matrix()
    trace = float(delta.trace())
    norm = distinct_mean(table, range(PARTS))
    squared = float(S.square().sum())
    products = torch.tensor([float((part * S).sum()) for part in parts], **HOST)
    changes = difference.table()
    corr_gsg = projected.corr_of_same if _same_networks(context) else projected.corr

    def label_effect(keep: list[int]) -> float:
        changed = distinct_mean(changes, keep)
        return changed / distinct_mean(table, keep)

    return Row(
        corr_s=corr_with_fixed(products, table, squared),
        corr_s_null=rotated(trace, float(S.trace()), norm, squared, len(delta)),
        corr_gsg=corr_gsg(projected.against(parts), table),
        corr_gsg_null=rotated(trace, projected.trace, norm, projected.squared_norm(), len(delta)),
        label_effect=jackknifed(label_effect, PARTS),
        contained=_containment(parts, table, projected, trace, context.options.leading),
        arrays={
            "evolution": delta,
            "evolution-stderr": evolution.stderr(),
            "label-difference": difference.matrix(),
            "label-difference-stderr": difference.stderr(),
        },
    )


def _containment(
    parts: list[Tensor], table: Tensor, projected: Projected, trace: float, leading: int | None
) -> Contained:
    """P on the k leading eigenvectors of G S G, for k = 1, 2, 4, ... and the k asked for."""
    # In the basis of G S G a leading subspace is a corner.
    eigenvalues, vectors = descending_eigh(projected.matrix())
    size = len(eigenvalues)
    # A dimension that was asked for has no error.
    chosen_stderr = None
    if leading is None:
        chosen = _leading(eigenvalues)
        chosen_stderr = _leading_stderr(projected)
    else:
        chosen = min(size, leading)
    turned = [vectors @ part @ vectors.T for part in parts]
    doublings = int(math.log2(size))
    powers = {2**power for power in range(doublings + 1)}
    ranks = sorted(powers | {chosen, size})
    norm = distinct_mean(table, range(PARTS))
    shares = [containment(turned, table, rank) for rank in ranks]
    nulls = [containment_null(trace, norm, size, rank) for rank in ranks]
    return Contained(
        dimensions=ranks,
        shares=shares,
        nulls=nulls,
        chosen=chosen,
        chosen_stderr=chosen_stderr,
    )


def _leading(eigenvalues: Tensor) -> int:
    """How many leading eigenvalues, descending, have the share CONTAINED of their sum."""
    shares = eigenvalues.clamp(min=0).cumsum(0)
    enough = CONTAINED * shares[-1]
    below = (shares < enough).sum()
    return int(below) + 1


def _leading_stderr(projected: Projected) -> float:
    """The standard error of that number, by the jackknife over parts of G, and its rounding."""
    # Leaving out a part of G may move the dimension.
    everything = range(projected.count)
    found = []
    for part in everything:
        others = [number for number in everything if number != part]
        eigenvalues = torch.linalg.eigvalsh(projected.matrix(others))
        found.append(_leading(eigenvalues.flip(0)))
    # A whole number is known up to its rounding.
    stderr = statistics.jackknife(found)
    return math.hypot(stderr, ROUNDING)


def _arrays(rows: list[Row]) -> dict[str, Any]:
    """What is drawn: matrices and containment of the last row, correlations of all."""
    # Matrices are large: only those of the last look are kept.
    last = rows[-1]
    shares = last.contained.shares
    arrays: dict[str, Any] = {
        **last.arrays,
        **_values("containment", shares),
        "containment-null": last.contained.nulls,
        "dimensions": last.contained.dimensions,
    }
    for name, corr, null in (
        ("corr-s", "corr_s", "corr_s_null"),
        ("corr-gsg", "corr_gsg", "corr_gsg_null"),
    ):
        corrs = [getattr(row, corr) for row in rows]
        nulls = [getattr(row, null) for row in rows]
        arrays |= _values(name, corrs)
        arrays[f"{name}-null"] = [null.null for null in nulls]
        arrays[f"{name}-null-spread"] = [null.null_spread for null in nulls]
    return arrays


def _values(name: str, corrs: list[Corr]) -> dict[str, list[float]]:
    """Values and their standard errors as arrays."""
    values = [corr.value for corr in corrs]
    errors = [corr.stderr for corr in corrs]
    return {name: values, f"{name}-stderr": errors}


def _quantities(row: Row, options: GeometryEvolution) -> dict[str, penchant.Quantity]:
    def quantity(corr: Corr, **null: Any) -> penchant.Quantity:
        return penchant.Quantity(
            corr.value,
            stderr=corr.stderr,
            over=OVER,
            count=options.networks,
            **null,
        )

    # The dimension that was asked for, among all that were measured.
    contained = row.contained
    place = contained.dimensions.index(contained.chosen)
    return {
        "corr-s": quantity(row.corr_s, **row.corr_s_null._asdict()),
        "corr-gsg": quantity(row.corr_gsg, **row.corr_gsg_null._asdict()),
        "containment": quantity(contained.shares[place], null=contained.nulls[place]),
        "leading": penchant.Quantity(
            contained.chosen,
            stderr=contained.chosen_stderr,
            over="" if contained.chosen_stderr is None else OVER,
            exact=options.leading is not None,
        ),
        "label-effect": quantity(row.label_effect, null=0.0),
    }
