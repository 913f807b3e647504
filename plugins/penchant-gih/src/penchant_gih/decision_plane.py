"""The probe `decision-plane`: two circles in a plane, and the boundary a network learns there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.derivatives import first_output
from penchant_numerics.trainer import Trainer, evaluate

from penchant_gih.bases import average_geometry, checked_indices, eigenbasis, mean_and_stderr

OUTPUTS = 2
SHOWN = 400  # test samples kept for the picture
_DATA = ("radii", "sigma", "train", "test")


def run(options: Any, context: Any) -> penchant.Result:
    """Train in the plane of one leading direction and each of the others, several networks a plane."""
    size = math.prod(context.architecture.shape)
    rank = min(size, options.samples) if options.geometry is None else size
    seconds = checked_indices(options.seconds, rank, size, every=1)
    (first,) = checked_indices((options.first,), rank, size, every=1)
    if first in seconds:
        raise penchant.Error(f"a plane needs two directions, found index {first} twice")
    matrix, _ = average_geometry(options, context, outputs=OUTPUTS)
    eigenvalues, vectors = eigenbasis(matrix, rank)
    half = options.extent * max(options.radii)
    data = {name: getattr(options, name) for name in _DATA} | {"half": half, "grid": options.grid}
    items = [
        {
            **data,
            "plane": second,
            "repeat": repeat,
            "directions": [vectors[i].tolist() for i in (first, second)],
        }
        for second in seconds
        for repeat in range(options.repeats)
    ]
    shards = list(context.map(learnt_boundary, items))
    shape = (len(seconds), options.repeats)
    arrays: dict[str, Any] = {
        "second": np.array(seconds),
        "eigenvalue": eigenvalues[seconds],
        "axis": _axis(half, options.grid),
    }
    arrays["plane"] = np.array([shard["plane"] for shard in shards]).reshape(
        *shape, options.grid, options.grid
    )
    arrays["points"] = np.array(
        [shards[n * options.repeats]["points"] for n in range(len(seconds))]
    )
    arrays["labels"] = np.array(
        [shards[n * options.repeats]["labels"] for n in range(len(seconds))]
    )
    for name in ("train", "test"):
        values = np.array([shard[name] for shard in shards]).reshape(shape)
        arrays[f"{name}-accuracy"], arrays[f"{name}-accuracy-stderr"] = mean_and_stderr(
            values, getattr(options, name)
        )
    conventions = {
        **context.conventions,
        "plane": "second logit minus first, all other directions at zero",
        "outputs": "two logits",
    }
    return penchant.Result(_quantities(arrays, seconds), arrays, conventions=conventions)


def _axis(half: float, grid: int) -> np.ndarray:
    return np.linspace(-half, half, grid)


def learnt_boundary(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Accuracies of one trained network, its outputs on a grid of the plane, and some test samples in the plane."""
    options = {name: item[name] for name in _DATA}
    data = context.dataset(
        "two-circles",
        directions=item["directions"],
        size=list(context.architecture.shape),
        **options,
    )
    network = context.network(item["repeat"], outputs=OUTPUTS)
    Trainer(
        network,
        data.train,
        context.training,
        seed=context.generator("training", item["plane"], item["repeat"]).initial_seed(),
    ).run()
    directions = torch.tensor(item["directions"], device=context.device, dtype=context.dtype)
    axis = torch.as_tensor(
        _axis(item["half"], item["grid"]), device=context.device, dtype=context.dtype
    )
    spots = (
        torch.cartesian_prod(axis, axis) @ directions
    )  # (grid * grid, D), the first direction outermost
    with torch.no_grad():
        outputs = torch.cat(
            [
                first_output(network(part.reshape(-1, *context.architecture.shape)))
                for part in spots.split(1024)
            ]
        )
    points = data.test.inputs[:SHOWN].flatten(1) @ directions.T
    accuracies = {
        name: evaluate(network, part)[1]
        for name, part in (("train", data.train), ("test", data.test))
    }
    grid = outputs.reshape(item["grid"], item["grid"])
    return {**accuracies, "plane": grid, "points": points, "labels": data.test.labels[:SHOWN]}


def _quantities(arrays: dict[str, Any], seconds: list[int]) -> dict[str, penchant.Quantity]:
    found = {}
    for place, position in (("best", int(np.argmin(seconds))), ("worst", int(np.argmax(seconds)))):
        value, error = (
            float(arrays[name][position]) for name in ("test-accuracy", "test-accuracy-stderr")
        )
        found[f"{place}-aligned-accuracy"] = penchant.Quantity(
            value, stderr=error, over="repeats and samples", null=0.5
        )
    return found


def plot(result: penchant.Result) -> dict[str, Any]:
    """The learnt boundaries in each plane (figure 1)."""
    from penchant_gih import figures

    return {"planes": figures.planes(result)}
