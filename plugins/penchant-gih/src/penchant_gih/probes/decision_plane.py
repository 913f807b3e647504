"""The probe `decision-plane`: two circles in a plane, and the boundary a network learns there."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics import statistics
from penchant_numerics.batched_training import Learner, map_trainings, measured
from penchant_numerics.data import Data
from penchant_numerics.derivatives import first_output
from penchant_numerics.trainer import outputs
from torch import Tensor, nn

from penchant_gih.declarations.preference import DecisionPlane
from penchant_gih.shared.advantages import answer_quantity
from penchant_gih.shared.preferred_directions import chosen_indices, preferred_directions
from penchant_gih.shared.right_answers import right_answers

OUTPUTS = 2
SHOWN = 400  # test samples stored for the picture


def run(options: DecisionPlane, context: penchant.Context) -> penchant.Result:
    """Train in the plane of one direction and each of the others, several networks a plane."""
    geometry = preferred_directions(
        context, networks=options.networks, outputs=OUTPUTS, stored=options.geometry
    )
    seconds = chosen_indices(options.seconds, geometry.vectors)
    (first,) = chosen_indices((options.first_index,), geometry.vectors)
    if first in seconds:
        raise penchant.Error(f"a plane needs two directions, found index {first} twice")
    # Every plane has trainings of its own.
    items = []
    for position, second in enumerate(seconds):
        for training in range(options.trainings):
            items.append({"position": position, "plane": second, "training": training})
    shared = {"first": geometry.vectors[first], "seconds": geometry.vectors[seconds]}
    rows = map_trainings(context, learnt_boundary, items, outputs=OUTPUTS, shared=shared)

    arrays: dict[str, Any] = {
        "seconds": np.array(seconds),
        "eigenvalues": geometry.eigenvalues[seconds],
        "axis": _axis(options),
        "planes": _by_plane(rows, "plane", options),
        "points": _by_plane(rows, "points", options)[:, 0],
        "labels": _by_plane(rows, "labels", options)[:, 0],
    }
    right = {}
    for name in ("train", "test"):
        right[name] = _by_plane(rows, name, options)  # (planes, trainings, samples)
        mean, stderr = statistics.crossed_accuracy(right[name])
        arrays[f"{name}-accuracy"] = mean
        arrays[f"{name}-accuracy-stderr"] = stderr
    conventions = {
        "plane": "second logit minus first, all other directions at zero",
        "outputs": "two logits",
    }
    quantities = _quantities(seconds, right["test"], options)
    return penchant.Result(quantities, arrays, conventions=conventions)


def _axis(options: DecisionPlane) -> np.ndarray:
    """Coordinates of the grid."""
    largest = max(options.radii)
    half = options.extent * largest
    return np.linspace(-half, half, options.grid_points)


def _by_plane(rows: list[dict[str, Any]], name: str, options: DecisionPlane) -> np.ndarray:
    """What trainings found, (planes, trainings, ...)."""
    values = np.array([row[name] for row in rows])
    # They come plane by plane.
    shape = (-1, options.trainings, *values.shape[1:])
    return values.reshape(shape)


def learnt_boundary(context: penchant.Context, item: Any) -> dict[str, Any]:
    """Accuracies of trained networks, their outputs on a grid, some test samples in the plane."""
    begin = functools.partial(_learner, context)
    boundary = functools.partial(_boundary, context)
    return measured(context, item, begin, boundary)


def _directions(context: penchant.Context, item: dict[str, int]) -> Tensor:
    """The two directions (2, D) of a plane."""
    shared = context.shared
    first = shared["first"]
    seconds = shared["seconds"]
    second = seconds[item["position"]]
    return torch.stack([first, second])


def _learner(context: penchant.Context, item: dict[str, int]) -> Learner:
    """A network that is trained on circles in the plane of both directions."""
    directions = _directions(context, item)
    data = _data(context, directions)
    training = item["training"]
    network = context.network(training, outputs=OUTPUTS)
    keys = (item["plane"], training)
    return Learner(network, data.train, keys, data.test)


def _boundary(context: penchant.Context, item: dict[str, int], learner: Learner) -> dict[str, Any]:
    directions = _directions(context, item).to(context.device, context.dtype)
    network = learner.network
    # Some test samples, for the picture.
    test = learner.test_samples
    shown = test.inputs[:SHOWN].flatten(1)
    return {
        "train": right_answers(network, learner.samples),
        "test": right_answers(network, test),
        "plane": _outputs_on_grid(context, network, directions),
        "points": shown @ directions.T,
        "labels": test.labels[:SHOWN],
    }


def _data(context: penchant.Context, rows: Tensor) -> Data:
    options = context.options
    return context.dataset(
        "two-circles",
        directions=rows.cpu().numpy(),
        radii=options.radii,
        noise_std=options.noise_std,
        train=options.train,
        test=options.test,
        input_shape=list(context.architecture.shape),
    )


def _outputs_on_grid(context: penchant.Context, network: nn.Module, directions: Tensor) -> Tensor:
    """Outputs (grid, grid), the first direction outermost."""
    # Points of the plane, all other directions at zero.
    axis = torch.as_tensor(_axis(context.options), device=context.device, dtype=context.dtype)
    grid = torch.cartesian_prod(axis, axis)
    spots = grid @ directions  # (grid * grid, D)
    spots = spots.reshape(-1, *context.architecture.shape)
    values = first_output(outputs(network, spots))
    side = len(axis)
    return values.reshape(side, side)


def one_axis_accuracy(radii: tuple[float, float]) -> float:
    """The best accuracy by one coordinate of two circles, as many samples on each.

    Beyond the smaller radius r2 a sample is on the larger circle; the share of that circle within
    r2 is 2 asin(r2 / r1) / pi, and there the smaller circle is the better guess.
    """
    small, large = sorted(radii)
    return 1 - math.asin(small / large) / math.pi


def _quantities(
    seconds: list[int], right: np.ndarray, options: DecisionPlane
) -> dict[str, penchant.Quantity]:
    """Test accuracy in the plane of the smallest and of the largest second index."""
    null = one_axis_accuracy(options.radii)
    return {
        "best-aligned-test-accuracy": answer_quantity(right[np.argmin(seconds)], null=null),
        "worst-aligned-test-accuracy": answer_quantity(right[np.argmax(seconds)], null=null),
    }
