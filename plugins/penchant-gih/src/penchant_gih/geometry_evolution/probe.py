"""The probe `geometry-evolution`: Delta from the mixed derivative, and what it is aligned with."""

import math
from collections.abc import Iterator
from typing import Any

import attrs
import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.training import Ensemble, Learner, State, train_and_evaluate
from torch import Tensor

from penchant_gih.declarations.estimators import AverageGeometry
from penchant_gih.declarations.geometry import GeometryEvolution
from penchant_gih.geometry_evolution.evolution import (
    RESIDUALS,
    Evolution,
    Flow,
    batch_size,
    largest_stack,
    mixed_products,
)
from penchant_gih.geometry_evolution.evolution_rows import Row, quantities_of, row_of, tables_of
from penchant_gih.shared.geometry import GROUPS, uncentred
from penchant_gih.shared.gradients import (
    BATCH_NORM,
    calibration_points,
    fresh_networks,
    probed_gradients,
    probing_law,
    probing_points,
    refuse_statistics_at_zero,
    shard_size,
    stacked,
    stacks,
    tensors_of,
    with_statistics,
)
from penchant_gih.shared.preferred_directions import groups_of, independent_groups
from penchant_gih.shared.projected import Projected
from penchant_gih.shared.training_steps import missing_names

PROBING = {
    "gaussian": "normal inputs of each network's own, each with its opposite",
    "zero": "at zero",
    "data": "two training inputs, sampled per network",
}
SIZES = ("widths", "channels", "width", "hidden")  # options that are the width of an architecture


def run(options: GeometryEvolution, context: penchant.Context) -> penchant.Result:
    """Measure every width, or every step of training, or the initialisation only."""
    # Labels that are neither two classes nor numbers are refused before anything is sampled.
    _targets(context)
    # S is what G is projected with: that of the samples that drive the evolution.
    S = uncentred(_train(context).inputs)
    rows = []
    for width in options.widths or (None,):
        rows += _measured(options, sized(context, width), S)
    # Matrices are large: only those of the last evaluation are stored.
    arrays: dict[str, Any] = dict(rows[-1].arrays)
    arrays["dimensions"] = rows[-1].contained.dimensions
    if options.widths is not None:
        arrays["widths"] = torch.tensor(options.widths, device="cpu")
    if options.eval_steps is not None:
        arrays["steps"] = torch.tensor(options.eval_steps, device="cpu")
    quantities = quantities_of(rows[-1], options)
    result = penchant.Result(
        quantities,
        arrays,
        conventions=_conventions(options, probing_law(context).probing),
        tables=tables_of(rows, options.widths or options.eval_steps or (0,)),
    )
    return attrs.evolve(result, missing=missing_names(context, result.arrays, quantities))


def _conventions(options: GeometryEvolution, probing: str) -> dict[str, str]:
    flow = f"gradient flow on the summed {options.residual}"
    return {
        "evolution": f"{flow}, Delta = D + D^T, one output, labels +-1",
        "evolution probing": PROBING[probing],
        "evolution batch-norm": BATCH_NORM[options.batch_norm],
        "S": "sum of x x^T over the training samples, uncentred",
        "corr": f"norms from {GROUPS} independent groups of the networks; within 0.001 of +-1 the "
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
            return context.scope(architecture=narrower, outputs=1)
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
            "geometry-evolution needs labels that are two classes, or one number per sample, "
            f"found {data.outputs} outputs"
        )
    numbers = labels.reshape(len(labels)).to(context.dtype)
    if data.classes == 2:
        return 2 * numbers - 1
    return numbers


def _measured(options: GeometryEvolution, context: penchant.Context, S: Tensor) -> list[Row]:
    """What there is to know at the initialisation, or at each step."""
    # One pair of sums per evaluation: Delta, and its change when labels are permuted.
    size = math.prod(context.architecture.shape)

    evaluations = 1 if options.eval_steps is None else len(options.eval_steps)
    sums = []
    for _ in range(evaluations):
        evolution = Evolution(size, device=context.device, groups=GROUPS)
        difference = Evolution(size, device=context.device, groups=GROUPS)
        sums.append((evolution, difference))
    for shard in context.map(
        shard_evolution, networks=options.networks, shard_size=shard_size(size, 1)
    ):
        # What a shard found, where it is summed.
        vectors = {}
        for name, array in shard.items():
            vectors[name] = torch.as_tensor(array, device=context.device)
        for number, (evolution, difference) in enumerate(sums):
            gradients = vectors["gradients"][number]
            evolution.add(vectors["mixed"][number], gradients)
            difference.add(vectors["difference"][number], gradients)

    # All evaluations are compared with the same G S G.
    projected = _projected(context, S)
    same_networks = _same_networks(context)
    rows = []
    for evolution, difference in sums:
        row = row_of(
            evolution,
            difference,
            projected,
            S,
            same_networks=same_networks,
            leading=options.leading,
        )
        rows.append(row)
    return rows


def _projected(context: penchant.Context, S: Tensor) -> Projected:
    """G S G in groups; the networks are those of Delta where their groups are known to be the same.

    Noise that both have in common cancels in a Corr. From other estimators come other networks:
    G S G would contain the very gradients that Delta is made of.
    """
    networks = context.options.networks
    if not _same_networks(context):
        context = context.scope(first=networks)
    groups = groups_of(independent_groups(context, networks))
    return Projected(groups, S.to(groups))


def _same_networks(context: penchant.Context) -> bool:
    """Whether network i is in group i mod GROUPS of G, as it is of Delta."""
    estimator = context.estimator("directions")
    return isinstance(estimator.options, AverageGeometry)


def shard_evolution(context: penchant.Context, indices: range) -> dict[str, Tensor]:
    """Vectors of some networks at each step, (steps, networks, inputs, D).

    `mixed` is v = M^T u, `difference` what permuting labels removes from it, `gradients`
    are g.
    """
    # The same permutation for all networks: labels do not depend on them.
    train = _train(context)
    targets = _targets(context)
    targets = targets[: len(train.labels)]
    stream = context.generator("permutation")
    order = torch.randperm(len(targets), generator=stream, device="cpu").to(targets.device)
    permuted = targets[order]
    size = math.prod(context.architecture.shape)
    residual = RESIDUALS[context.options.residual]
    sums: dict[str, list[Tensor]] = {"mixed": [], "difference": [], "gradients": []}
    # Some networks at a time, each at inputs of its own.
    largest = largest_stack(size)
    for networks, some in _networks(context, indices, largest):
        points = _points(context, some)
        a_network = points[0].numel()
        batch = batch_size(len(some), a_network, len(targets))
        flow = Flow(train.inputs, targets, permuted, residual, batch=batch)
        columns = [_vectors(ensemble, flow, points) for ensemble in networks]
        # From one list per step to an array per name.
        for name, column in zip(sums, zip(*columns)):
            sums[name].append(torch.stack(column))
    return {name: torch.cat(chunks, dim=1) for name, chunks in sums.items()}


def _points(context: penchant.Context, indices: range) -> Tensor:
    """Probing inputs (networks, 1 or 2, *shape) of the law of G.

    The normal law is symmetric: a pair of opposite inputs halves the variance.
    """
    law = probing_law(context)
    inputs = 2 if law.probing == "data" else 1
    points = probing_points(context, indices, inputs=inputs, **law._asdict())
    if law.probing == "gaussian":
        return torch.cat([points, -points], 1)
    return points


def _networks(
    context: penchant.Context, indices: range, largest: int
) -> Iterator[tuple[list[Ensemble], range]]:
    """Networks at the initialisation, or at each step of their trainings, and their numbers."""
    # At initialisation networks are sampled as a stack, which is much faster.
    options = context.options
    if options.eval_steps is None:
        calibration = None
        if options.batch_norm == "calibrated":
            calibration = _calibration(context)
        for networks, some in fresh_networks(
            context, indices, largest=largest, calibration=calibration
        ):
            yield [networks], some
        return
    for some in stacks(context, indices, largest=largest):
        yield _trained(context, some), some


def _calibration(context: penchant.Context) -> Any:
    law = probing_law(context)
    refuse_statistics_at_zero(law, "calibrated")
    return lambda index: calibration_points(context, index, **law._asdict())


def _trained(context: penchant.Context, indices: range) -> list[Ensemble]:
    """The networks of these numbers at each step of their trainings."""
    train = _train(context)
    steps = context.options.eval_steps

    def begin(index: int) -> Learner:
        network = context.network(index)
        return Learner(network, train, (index,))

    def evaluate(index: int, learner: Learner) -> tuple[int, State]:
        policy = context.options.batch_norm
        prepared = with_statistics(learner.network, policy, train.inputs)
        return learner.step, tensors_of(prepared)

    columns = train_and_evaluate(context, indices, begin, evaluate, steps=steps)
    # A training that stopped early has stayed where it was.
    reached = min(column[-1][0] for column in columns)
    if reached < steps[-1]:
        raise penchant.Error(
            f"the training ended at step {reached}, expected to reach step {steps[-1]}"
        )
    # One stack of networks per step.
    module = context.network(indices[0])
    ensembles = []
    for by_network in zip(*columns):
        states = [state for _, state in by_network]
        ensembles.append(stacked(module, states))
    return ensembles


def _vectors(ensemble: Ensemble, flow: Flow, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """v, what permuting labels takes from it, and g."""
    right, taken = flow.parameter_gradients(ensemble)
    mixed = mixed_products(ensemble, right, points)
    difference = mixed_products(ensemble, taken, points)
    gradients = probed_gradients(ensemble, points)
    return mixed, difference, gradients
