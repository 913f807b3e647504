"""The probe `feature-elimination`: what does taking out what a network cannot see cost it?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics import statistics
from penchant_numerics.batched_training import Learner, train_and_evaluate
from torch import Tensor

from penchant_gih.declarations.preference import FeatureElimination
from penchant_gih.numerics.elimination import (
    equal_count,
    explained,
    least_aligned,
    random_rows,
    without,
)
from penchant_gih.numerics.geometry import uncentred
from penchant_gih.shared.advantages import advantage_arrays, advantage_quantity
from penchant_gih.shared.preferred_directions import matrix_of, preferred_directions
from penchant_gih.shared.probing import scalar_outputs
from penchant_gih.shared.right_answers import right_answers


def run(options: FeatureElimination, context: penchant.Context) -> penchant.Result:
    """Train on what is left after taking out more and more directions.

    A shard has a training for every number of directions of one kind.
    """
    size = math.prod(context.data.shape)
    removed = _removed(options.removed, size)
    # Directions that the architecture sees least, for what they are in the data.
    G = _geometry(options, context, size)
    S = uncentred(context.data.train.inputs).to(G)
    rows = least_aligned(G, S, ridge=options.ridge)
    shares = [0.0, *explained(rows, S).tolist()]
    curve = [shares[count] for count in removed]

    # Against as many random ones as explain as much, others for each training.
    random = []
    for training in range(options.trainings):
        counts = _random_counts(context, training, S.cpu(), curve)
        random.append(counts)
    items = _items(removed, random)
    most = max(removed)
    shared = {"rows": rows[:most]}
    shards = context.map(right_without, items, shared=shared)
    # Trainings without the chosen directions come first.
    right = [shard["right"] for shard in shards]
    ours = np.array(right[: options.trainings])  # (trainings, counts, samples)
    others = np.array(right[options.trainings :])

    arrays = {
        "removed": np.array(removed),
        "explained": np.array(curve),
        **_with_error("random-removed", np.array(random)),
        **_accuracies("test-accuracy", ours),
        **_accuracies("random-test-accuracy", others),
        **advantage_arrays(ours, others),
    }
    quantities = _quantities(ours, others)
    return penchant.Result(quantities, arrays, conventions=_conventions(options))


def _items(removed: list[int], random: list[list[int]]) -> list[dict[str, Any]]:
    """Trainings without the chosen directions, then as many without random ones."""
    items = []
    for training in range(len(random)):
        items.append({"training": training, "counts": removed, "random": False})
    for training, counts in enumerate(random):
        items.append({"training": training, "counts": counts, "random": True})
    return items


def _geometry(options: FeatureElimination, context: penchant.Context, size: int) -> Tensor:
    """G; one of too few networks has no generalised eigenvectors."""
    geometry = preferred_directions(
        context, networks=options.networks, outputs=scalar_outputs(context), stored=options.geometry
    )
    if len(geometry.vectors) < size:
        raise penchant.Error(
            f"generalised eigenvectors need at least {size} networks, as many as inputs, "
            f"found networks {options.networks}"
        )
    return matrix_of(geometry)


def _removed(removed: tuple[int, ...] | None, size: int) -> list[int]:
    """How many directions are taken out: as requested, or none to all but one in eight steps."""
    if removed is None:
        eighths = {round(eighth * (size - 1) / 8) for eighth in range(9)}
        return sorted(eighths)
    ascending = sorted(set(removed))
    if list(removed) != ascending or removed[-1] >= size:
        raise penchant.Error(
            f"removed must ascend and stay below {size}, the number of inputs, "
            f"found {list(removed)}"
        )
    return list(removed)


def _random_counts(
    context: penchant.Context, training: int, S: Tensor, shares: list[float]
) -> list[int]:
    """How many random directions explain as much."""
    rows = _random_basis(context, training, len(S))
    explained_shares = explained(rows, S)
    return [equal_count(explained_shares, share) for share in shares]


def _random_basis(context: penchant.Context, training: int, size: int) -> Tensor:
    stream = context.generator("random directions", training)
    return random_rows(size, stream)


def right_without(context: penchant.Context, item: dict[str, Any]) -> dict[str, Tensor]:
    """On which test samples a network is right, for each number of directions taken out."""
    # The directions are sent; random ones are drawn again where they are needed.
    data = context.data
    training = item["training"]
    rows = context.shared["rows"]
    if item["random"]:
        size = math.prod(data.shape)
        rows = _random_basis(context, training, size)

    def begin(count: int) -> Learner:
        gone = rows[:count]
        train = without(data.train, gone)
        test = without(data.test, gone)
        network = context.network(training)
        return Learner(network, train, (training,), test)

    by_count = train_and_evaluate(context, item["counts"], begin, _right)
    # At the end of each training.
    right = [by_step[-1] for by_step in by_count]
    return {"right": torch.stack(right)}


def _right(count: int, learner: Learner) -> Tensor:
    """On which test samples a network is right."""
    return right_answers(learner.network, learner.test_samples)


def _with_error(name: str, values: np.ndarray) -> dict[str, Any]:
    """Means over trainings (trainings, ...), with their errors where there are two or more."""
    mean, stderr = statistics.mean_and_stderr(values, axis=0)
    if stderr is None:
        return {name: mean}
    return {name: mean, f"{name}-stderr": stderr}


def _accuracies(name: str, right: np.ndarray) -> dict[str, Any]:
    """Accuracies by count, from (trainings, counts, samples) on shared test samples."""
    by_count = right.swapaxes(0, 1)  # (counts, trainings, samples)
    mean, stderr = statistics.crossed_accuracy(by_count)
    return {name: mean, f"{name}-stderr": stderr}


def _conventions(options: FeatureElimination) -> dict[str, str]:
    return {
        "directions": "generalised eigenvectors of (G, S), least aligned with G first, "
        "orthonormalised in their order",
        "S": f"uncentred, plus {options.ridge:g} of its mean eigenvalue on the diagonal",
        "random": "as many random orthonormal directions as explain at least the same share of "
        "the trace of S",
    }


def _quantities(ours: np.ndarray, others: np.ndarray) -> dict[str, penchant.Quantity]:
    """Mean advantage over random directions, where something is taken out."""
    counts = ours.shape[1]
    # The first count is none at all, where there are others.
    if counts > 1:
        ours = ours[:, 1:]
        others = others[:, 1:]
    return advantage_quantity(ours, others)
