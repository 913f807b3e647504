"""The probe `input-curvature`: the input Hessian of the loss against the geometry, by step.

The input Hessian of a loss, in its two terms: mean l'' g g^T and mean l' Hess_x f.

A shift z shared by all samples turns the mean of Hessians into one Hessian,
Hess_z mean_mu l'_mu f(x_mu + z) at z = 0, whose rows are backward passes of one gradient.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.device import HOST
from penchant_numerics.inputs import (
    Corr,
    RotatedCorr,
    corr_of_sampled,
    distinct_mean,
    first_output,
    jackknifed,
    rotated,
)
from penchant_numerics.statistics import Repetitions
from penchant_numerics.training import Learner, map_trainings, shard_of, train_and_evaluate
from torch import Tensor, nn
from torch.func import grad, vjp

from penchant_gih.declarations.geometry import InputCurvature
from penchant_gih.shared.gradients import BATCH_NORM, with_statistics
from penchant_gih.shared.training_steps import chosen_steps, missing_names

LARGEST = 2**30  # numbers stored of all Hessians together
TERMS = ("first", "second", "geometry")


def run(options: InputCurvature, context: penchant.Context) -> penchant.Result:
    """Train networks, and take both terms of the Hessian at some samples at each step."""
    classes = context.data.classes
    if classes != 2:
        raise penchant.Error(f"input-curvature needs two classes, found {classes}")
    if context.network_kind == "fresh":
        steps = _steps(context)
        _check_size(options.trainings, context, len(steps))
        indices = list(range(options.trainings))
        trainings = map_trainings(context, curvature_along_training, indices, outputs=1)
    else:
        steps, trainings = _along_states(options, context)
    repeated = "training" if context.network_kind == "fresh" else "sample"
    # Mean l'' by step.
    weights = penchant.Table(
        [training["weight"] for training in trainings],
        {repeated: range(len(trainings)), "step": steps},
    )
    tables = {**_by_step(trainings, steps, f"{repeated}s"), "weight": weights.mean(repeated)}
    quantities = _quantities({name: each.at(step=steps[-1]) for name, each in tables.items()})
    result = penchant.Result(
        quantities,
        {"steps": np.array(steps)},
        tables=tables,
        conventions=_conventions(options, context),
    )
    missing = missing_names(context, result.arrays, quantities)
    return attrs.evolve(result, missing=missing)


def _steps(context: penchant.Context) -> list[int]:
    assert context.training is not None  # the probe needs one
    total = context.training.total_steps(len(context.data.train.labels))
    return chosen_steps(context.options.eval_steps, total)


def _along_states(
    options: InputCurvature, context: penchant.Context
) -> tuple[list[int], list[dict[str, Any]]]:
    """Steps of the user's states, and terms of the Hessian of every sample, (steps, D, D) each."""
    train = context.data.train
    some = _samples(context, 0, train)
    count = len(some.labels)
    if count < 3:
        raise penchant.Error(f"one network needs at least 3 samples, found {count}")
    states = len(context.steps) or 1
    _check_size(count, context, states)
    steps, columns = [], []
    for step, network in context.trained(options.eval_steps):
        steps.append(step)
        each = [_at(context, network, some.select(slice(k, k + 1))) for k in range(count)]
        columns.append(each)
    samples = []
    for number in range(count):
        terms = [column[number] for column in columns]
        samples.append({name: np.stack([term[name] for term in terms]) for name in terms[0]})
    return steps, samples


def _check_size(repetitions: int, context: penchant.Context, steps: int) -> None:
    """Refuse what would not fit."""
    size = math.prod(context.data.shape)
    matrices = len(TERMS) * repetitions * steps
    numbers = matrices * size**2
    if numbers > LARGEST:
        what = f"{repetitions} Hessians at {steps} steps of {size} inputs"
        times = numbers / 2**30
        need = f"{times:.1f} x 2^30 numbers"
        raise penchant.Error(f"{what} are {need}, expected at most 2^30")


def curvature_along_training(context: penchant.Context, item: Any) -> dict[str, Tensor]:
    """Terms of the mean Hessian and of g g^T of networks (steps, D, D); mean l'' (steps,)."""
    along = functools.partial(_along_trainings, context)
    return shard_of(item, along)


def _along_trainings(context: penchant.Context, indices: list[int]) -> list[dict[str, Tensor]]:
    begin = functools.partial(_learner, context)
    evaluate = functools.partial(_curvature, context)
    steps = _steps(context)
    columns = train_and_evaluate(context, indices, begin, evaluate, steps=steps)
    # From a list of steps to an array per name.
    rows = []
    for entry in columns:
        by_step = {}
        for name in (*TERMS, "weight"):
            column = [terms[name] for terms in entry]
            by_step[name] = torch.stack(column)
        rows.append(by_step)
    return rows


def _learner(context: penchant.Context, index: int) -> Learner:
    data = context.data
    network = context.network(index, outputs=1)
    return Learner(network, data.train, (index,), data.test)


def _curvature(context: penchant.Context, index: int, learner: Learner) -> dict[str, Tensor]:
    """Terms of the Hessian of one network as it is now."""
    some = _samples(context, index, learner.samples)
    return _at(context, learner.network, some)


def _at(context: penchant.Context, network: nn.Module, some: Samples) -> dict[str, Tensor]:
    """Terms of the mean Hessian of a network at samples."""
    # Classes 0 and 1 as -1 and 1.
    targets = 2 * some.labels.to(context.dtype) - 1
    policy = context.options.batch_norm
    prepared = with_statistics(network, policy, context.data.train.inputs)
    prepared.requires_grad_(False)
    assert context.training is not None  # the probe needs one
    loss = context.training.loss
    terms = curvature_terms(prepared, some.inputs, targets, loss=loss)
    # In the host's memory: Hessians of many networks and steps are large.
    return {name: value.cpu() for name, value in terms.items()}


def _samples(context: penchant.Context, index: int, train: Samples) -> Samples:
    """Where the Hessian is taken: each network has samples of its own, the same at every step."""
    stream = context.generator("points", index)
    order = torch.randperm(len(train.labels), generator=stream, device="cpu")
    return train.select(order[: context.options.samples].to(train.labels.device))


def _by_step(
    trainings: list[dict[str, Any]], steps: list[int], over: str
) -> dict[str, penchant.Table]:
    """Corr(H, G_t) and the share of the second term at every step."""
    rows = []
    for number in range(len(steps)):
        terms = {}
        for name in TERMS:
            matrices = [training[name][number] for training in trainings]
            terms[name] = torch.as_tensor(np.stack(matrices), **HOST)
        rows.append(_row(terms))
    axes, count = {"step": steps}, len(trainings)
    repetitions: Repetitions = {"over": over, "count": count, "df": count - 1}
    corrs, nulls, null_errors, shares = zip(*rows)
    null, null_spread = np.array(nulls).T
    corr, error = np.array(corrs).T
    share, share_error = np.array(shares).T
    return {
        "corr-g": penchant.Table(
            corr,
            axes,
            stderr=error,
            null=null,
            null_spread=null_spread,
            null_stderr=null_errors,
            **repetitions,
        ),
        "second-share": penchant.Table(share, axes, stderr=share_error, **repetitions),
    }


def _row(terms: dict[str, Tensor]) -> tuple[Corr, RotatedCorr, float, Corr]:
    """Corr(H, G_t), its null and the error of that, and the share of the second term."""
    # Matrices as rows: inner products of all pairs of networks are one product.
    first = terms["first"].flatten(1)
    second = terms["second"].flatten(1)
    geometry = terms["geometry"].flatten(1)
    hessian = first + second
    whole = hessian @ hessian.T
    own = geometry @ geometry.T
    cross = hessian @ geometry.T
    corr = corr_of_sampled(cross, whole, own)
    share = second_share(second @ second.T, whole)

    # What a random rotation of one of them would leave.
    count, size = terms["first"].shape[:2]
    traces = _traces(terms["first"] + terms["second"])
    other_traces = _traces(terms["geometry"])

    def null_among(chosen: list[int]) -> RotatedCorr:
        trace, other = float(traces[chosen].mean()), float(other_traces[chosen].mean())
        return rotated(trace, other, distinct_mean(whole, chosen), distinct_mean(own, chosen), size)

    null = null_among(list(range(count)))
    null_error = jackknifed(lambda chosen: null_among(chosen).null, count).stderr
    return corr, null, null_error, share


def _traces(matrices: Tensor) -> Tensor:
    """Traces (networks,) of matrices (networks, D, D)."""
    return matrices.diagonal(dim1=1, dim2=2).sum(1)


def second_share(inner: Tensor, whole: Tensor) -> Corr:
    """|E[l' Hess f]| / |H| from products of different networks, with its standard error.

    The squared share q is unbiased and may come out negative: then nothing is common to the
    networks, the share is 0, and its error is what one standard error of q would show,
    sqrt(s). Where some networks left out make q negative, the same holds around the share:
    sqrt(q + s) - sqrt(q). A term that is exactly zero has no error.

    Args:
        inner: <B_i, B_j> of the second term, (networks, networks).
        whole: <H_i, H_j>.
    """

    def squared(chosen: list[int]) -> float:
        below = distinct_mean(whole, chosen)
        if below > 0:
            return distinct_mean(inner, chosen) / below
        return math.nan

    count = len(inner)
    everything = list(range(count))
    # Is there a positive norm, whichever network is left out?
    squares = [squared(everything)]
    for each in everything:
        others = [other for other in everything if other != each]
        squares.append(squared(others))
    if all(square > 0 for square in squares):
        return jackknifed(lambda chosen: math.sqrt(squared(chosen)), count)
    square = jackknifed(squared, count)
    if math.isnan(square.value):
        return square
    # What one standard error of the square would show.
    least = max(0.0, square.value)
    value = math.sqrt(least)
    stderr = math.sqrt(least + square.stderr) - value
    return Corr(value, stderr)


def _conventions(options: InputCurvature, context: penchant.Context) -> dict[str, str]:
    assert context.training is not None  # the probe needs one
    loss = context.training.loss
    return {
        "curvature": f"mean input Hessian of the {loss} loss at training samples, "
        "E[l''] g g^T + E[l'] Hess f; one output",
        "second-share": "norm of E[l' Hess_x f] over that of the whole; 0 for piecewise linear "
        "networks",
        "corr": "inner products of different networks only"
        if context.network_kind == "fresh"
        else "inner products of different samples only",
        "batch-norm": BATCH_NORM[options.batch_norm],
    }


def _quantities(final: dict[str, penchant.Table]) -> dict[str, penchant.Quantity]:
    """At the end of training."""
    share = final["second-share"].quantity()
    # A piecewise linear network has no second term at all.
    if share.value == 0 and share.stderr == 0:
        share = penchant.Quantity(share.value, null=0.0, exact=True)
    return {"corr-g": final["corr-g"].quantity(), "second-share": attrs.evolve(share, null=0.0)}


Network = Callable[[Tensor], Tensor]


def loss_derivatives(outputs: Tensor, targets: Tensor, loss: str) -> tuple[Tensor, Tensor]:
    """L' and l'' at outputs f for targets +-1: the logistic loss, or half the squared error."""
    if loss == "squared-error":
        error = outputs - targets
        return error, torch.ones_like(outputs)
    share = torch.sigmoid(outputs)
    classes = (targets + 1) / 2
    bend = share * (1 - share)
    return share - classes, bend


def curvature_terms(
    network: Network, inputs: Tensor, targets: Tensor, *, loss: str, chunk: int = 64
) -> dict[str, Tensor]:
    """The mean input Hessian of a loss, term by term.

    Args:
        network: One output, or two logits.
        inputs: Samples (m, *shape).
        targets: +-1, (m,).
        loss: `cross-entropy` or `squared-error`.
        chunk: Rows that are differentiated together.

    Returns:
        Mean l'' g g^T (`first`), mean l' Hess_x f (`second`), mean g g^T (`geometry`), all (D, D),
        and mean l'' (`weight`).
    """
    # Gradients of all samples in one pass, then l' and l'' at their outputs.
    gradients = grad(lambda x: first_output(network(x)).sum())(inputs).flatten(1)
    outputs = first_output(network(inputs)).detach()
    slope, bend = loss_derivatives(outputs, targets, loss)
    count, size = gradients.shape

    def weighted(shift: Tensor) -> Tensor:
        moved = inputs + shift.reshape(inputs.shape[1:])
        outputs = first_output(network(moved))
        return (slope * outputs).mean()

    basis = torch.eye(size, device=inputs.device, dtype=inputs.dtype)
    # Rows of the Hessian, some at a time: backward passes of one gradient.
    zero = torch.zeros(size, device=inputs.device, dtype=inputs.dtype)
    pull = vjp(grad(weighted), zero)[1]
    second = torch.cat([torch.vmap(pull)(rows)[0] for rows in basis.split(chunk)])
    first = (gradients * bend[:, None]).T @ gradients / count
    return {
        "first": first,
        "second": (second + second.T) / 2,
        "geometry": gradients.T @ gradients / count,
        "weight": bend.mean(),
    }
