"""The probe `decision-plane`: two circles in a plane, and the boundary a network learns there."""

import functools
import math
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.data import Data
from penchant_numerics.inputs import first_output
from penchant_numerics.training import Learner, measured, outputs, right_answers
from torch import Tensor, nn

from penchant_gih.declarations.preference import DecisionPlane
from penchant_gih.shared.preferred_directions import (
    direction_of,
    indices_of,
    preferred_directions,
    shared_directions,
)

OUTPUTS = 2
EXTENT = 1.6  # half side of the picture, in units of the larger radius
SHOWN = 400  # test samples stored for the picture


def run(options: DecisionPlane, context: penchant.Context) -> penchant.Result:
    """Train in the plane of one direction and each of the others, several networks a plane."""
    geometry = preferred_directions(
        context, networks=options.networks, outputs=OUTPUTS, stored=options.geometry
    )
    seconds = indices_of(options.seconds, geometry.vectors)
    if 0 in seconds:
        raise penchant.Error("a plane needs two directions, found index 0 twice")
    # Every plane has trainings of its own.
    learnt = context.tables(
        learnt_boundary,
        inside=("sample", "coordinate"),
        shared={"first": geometry.vectors[0], **shared_directions(seconds, geometry.vectors)},
        trainings=True,
        outputs=OUTPUTS,
        second=seconds,
        training=range(options.trainings),
    )
    arrays: dict[str, Any] = {
        "seconds": np.array(seconds),
        "eigenvalues": geometry.eigenvalues[seconds],
        "axis": _axis(options),
        "planes": learnt["plane"].values,
        "points": learnt["points"].at(training=0).values,
        "labels": learnt["labels"].at(training=0).values,
    }
    null = one_axis_accuracy(options.radii)
    quantities = {}
    for name, second in (("best", min(seconds)), ("worst", max(seconds))):
        accuracy = learnt["test"].at(second=second).mean(("training", "sample"), null=null)
        quantities[f"{name}-aligned-test-accuracy"] = accuracy.quantity()
    conventions = {
        "plane": "second logit minus first, all other directions at zero",
        "outputs": "two logits",
    }
    tables = {f"{name}-accuracy": learnt[name].accuracy() for name in ("train", "test")}
    return penchant.Result(quantities, arrays, tables=tables, conventions=conventions)


def _axis(options: DecisionPlane) -> np.ndarray:
    """Coordinates of the grid."""
    largest = max(options.radii)
    half = EXTENT * largest
    return np.linspace(-half, half, options.grid_points)


def learnt_boundary(context: penchant.Context, item: Any) -> dict[str, Any]:
    """Accuracies of trained networks, their outputs on a grid, some test samples in the plane."""
    begin = functools.partial(_learner, context)
    boundary = functools.partial(_boundary, context)
    return measured(context, item, begin, boundary)


def _directions(context: penchant.Context, item: dict[str, int]) -> Tensor:
    """The two directions (2, D) of a plane."""
    return torch.stack([context.shared["first"], direction_of(context, item["second"])])


def _learner(context: penchant.Context, item: dict[str, int]) -> Learner:
    """A network that is trained on circles in the plane of both directions."""
    directions = _directions(context, item)
    data = _data(context, directions)
    training = item["training"]
    network = context.network(training, outputs=OUTPUTS)
    keys = (item["second"], training)
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
