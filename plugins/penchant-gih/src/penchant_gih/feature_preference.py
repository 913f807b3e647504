"""The probe `feature-preference`: does a network rely on the linear feature or on the ring?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
from penchant_numerics.trainer import Trainer, evaluate

from penchant_gih.bases import average_geometry, checked_indices, eigenbasis, mean_and_stderr

OUTPUTS = 2
_DATA = ("epsilon", "sigma", "radii", "train", "test")


def run(options: Any, context: Any) -> penchant.Result:
    """Train on both features at once, with the linear one on another direction each time, and test each feature alone."""
    size = math.prod(context.architecture.shape)
    rank = min(size, options.samples) if options.geometry is None else size
    indices = _indices(options, rank, size)
    matrix, _ = average_geometry(options, context, outputs=OUTPUTS)
    eigenvalues, vectors = eigenbasis(matrix, rank)
    data = {name: getattr(options, name) for name in _DATA}
    items = [
        {
            **data,
            "index": index,
            "repeat": repeat,
            "directions": [vectors[i].tolist() for i in (index, *options.ring)],
        }
        for index in indices
        for repeat in range(options.repeats)
    ]
    rows = list(context.map(accuracy_by_feature, items))
    arrays: dict[str, Any] = {"index": np.array(indices), "eigenvalue": eigenvalues[indices]}
    for name, count in (
        ("train", options.train),
        ("both", options.test),
        ("linear", options.test),
        ("ring", options.test),
    ):
        values = np.array([row[name] for row in rows]).reshape(-1, options.repeats)
        arrays[f"{name}-accuracy"], arrays[f"{name}-accuracy-stderr"] = mean_and_stderr(
            values, count
        )
    conventions = {
        **context.conventions,
        "alone": "the other feature is that of an independent random label",
        "outputs": "two logits",
    }
    return penchant.Result(_quantities(arrays), arrays, conventions=conventions)


def _indices(options: Any, rank: int, size: int) -> list[int]:
    """Where the linear feature goes: never on the ring's own plane."""
    checked_indices(options.ring, rank, size, every=1)
    if options.indices:
        indices = checked_indices(options.indices, rank, size, every=1)
    else:
        indices = [index for index in range(0, rank, options.every) if index not in options.ring]
    if shared := sorted(set(indices) & set(options.ring)):
        raise penchant.Error(
            f"indices must not be those of the ring's plane, found {shared} in both"
        )
    return indices


def accuracy_by_feature(context: Any, item: dict[str, Any]) -> dict[str, float]:
    """Accuracies of one trained network: on training samples, on both features, on each alone."""
    options = {name: item[name] for name in _DATA}
    options |= {"directions": item["directions"], "size": list(context.architecture.shape)}
    data = context.dataset("linear-and-ring", tested="both", **options)
    network = context.network(item["repeat"], outputs=OUTPUTS)
    Trainer(
        network,
        data.train,
        context.training,
        seed=context.generator("training", item["index"], item["repeat"]).initial_seed(),
    ).run()
    found = {"train": evaluate(network, data.train)[1], "both": evaluate(network, data.test)[1]}
    for name in ("linear", "ring"):
        found[name] = evaluate(
            network, context.dataset("linear-and-ring", tested=name, **options).test
        )[1]
    return found


def _quantities(arrays: dict[str, Any]) -> dict[str, penchant.Quantity]:
    found = {}
    for name in ("linear-accuracy", "ring-accuracy"):
        for place, position in (
            ("first", int(arrays["index"].argmin())),
            ("last", int(arrays["index"].argmax())),
        ):
            error = float(arrays[f"{name}-stderr"][position])
            value = float(arrays[name][position])
            found[f"{place}-{name}"] = penchant.Quantity(
                value, stderr=error, over="repeats and samples", null=0.5
            )
    return found


def plot(result: penchant.Result) -> dict[str, Any]:
    """Accuracy on each feature alone by the direction of the linear one (figure 5)."""
    from penchant_gih import figures

    return {"accuracy": figures.feature_accuracy(result)}
