"""The average geometry of fresh networks, each at probing inputs of its own."""

import math

import penchant
import torch
from penchant_numerics.device import memory
from penchant_numerics.inputs import by_rows
from penchant_numerics.roles import Directions
from torch import Tensor

from penchant_gih.declarations.estimators import AverageGeometry
from penchant_gih.shared.geometry import GROUPS, HALVES, Geometry, directions_of_rows
from penchant_gih.shared.gradients import (
    BATCH_NORM,
    OUTPUTS,
    calibration_points,
    fresh_networks,
    probed_gradients,
    probing_points,
    shard_size,
)


def estimate(options: AverageGeometry, context: penchant.Context, *, networks: int) -> Directions:
    """Estimator of the role `directions`: G, streamed shard by shard."""
    outputs = context.architecture.outputs
    if outputs > 2:
        raise penchant.Error(
            f"average-geometry needs one output or two logits, found {outputs} outputs"
        )
    # Shards give gradients, which are smaller than the matrix they are summed into.
    size = math.prod(context.architecture.shape)
    shards = context.map(
        shard_gradients, networks=networks, shard_size=shard_size(size, options.vectors)
    )
    batches = (torch.as_tensor(shard["gradients"], device=context.device) for shard in shards)
    conventions = _conventions(options, outputs)
    # Large inputs and few networks: their gradients say all there is to say.
    if by_rows(networks * options.vectors, size):
        rows = torch.cat([gradients.flatten(0, 1) for gradients in batches])
        return directions_of_rows(rows, networks=networks, conventions=conventions)
    _refuse_what_does_not_fit(size, context.device)
    geometry = Geometry(size, device=context.device, inputs=options.vectors)
    for gradients in batches:
        geometry.add(gradients)
    return geometry.directions(conventions)


def _refuse_what_does_not_fit(size: int, device: torch.device) -> None:
    # Halves and groups of the networks have a matrix each, and are stacked at the end.
    needed = (HALVES + 2 * GROUPS + 4) * 8 * size**2
    memory.require(
        needed,
        device,
        what=f"the average geometry of {size} inputs, in groups",
        hint="draw fewer networks than inputs, whose gradients are stored instead",
    )


def _conventions(options: AverageGeometry, outputs: int) -> dict[str, str]:
    """What makes one G incomparable with another."""
    opposite = ", and its opposite" if options.opposite else ""
    where = {
        "gaussian": f"N(0, {options.scale:g}^2 I), fresh for every network{opposite}",
        "zero": "at zero",
        "data": "training inputs, sampled per network",
    }
    return {
        "geometry": "uncentred second moment of input gradients at initialisation",
        "probing": where[options.probing],
        "output": OUTPUTS[outputs],
        "batch-norm": BATCH_NORM[options.batch_norm],
    }


def shard_gradients(context: penchant.Context, indices: range) -> dict[str, Tensor]:
    """Gradients (networks, inputs, D) of one shard, some networks at a time."""
    # The same law for the inputs of gradients and of batch-norm statistics.
    options = context.options
    law = {"probing": options.probing, "scale": options.scale}
    calibration = None
    if options.batch_norm == "calibrated":
        calibration = lambda index: calibration_points(context, index, **law)  # noqa: E731
    # As many networks at a time as fit on the device.
    gradients = []
    for networks, some in fresh_networks(
        context, indices, batch_norm=options.batch_norm, calibration=calibration
    ):
        points = probing_points(context, some, inputs=options.inputs, **law)
        if options.opposite:
            points = torch.cat([points, -points], 1)
        gradients.append(probed_gradients(networks, points, rows_mix=options.batch_norm == "batch"))
    return {"gradients": torch.cat(gradients)}
