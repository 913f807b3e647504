"""The average geometry of fresh networks, each at probing inputs of its own."""

from __future__ import annotations

import math

import penchant
import torch
from penchant_numerics.answers import Directions
from torch import Tensor

from penchant_gih.declarations.estimators import AverageGeometry
from penchant_gih.numerics.geometry import Geometry
from penchant_gih.numerics.gradients import probed_gradients, shard_size
from penchant_gih.probes.probing import (
    BATCH_NORM,
    OUTPUTS,
    calibration_points,
    drawn_networks,
    probing_points,
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
    geometry = Geometry(
        size,
        device=context.device,
        inputs=options.vectors,
    )
    a_shard = shard_size(size, options.vectors)
    for shard in context.map(
        shard_gradients,
        networks=networks,
        a_shard=a_shard,
    ):
        geometry.add(torch.as_tensor(shard["gradients"], device=context.device))
    return geometry.directions(_conventions(options, outputs))


def _conventions(options: AverageGeometry, outputs: int) -> dict[str, str]:
    """What makes one G incomparable with another."""
    opposite = ", and its opposite" if options.opposite else ""
    where = {
        "gaussian": f"N(0, {options.scale:g}^2 I), fresh for every network{opposite}",
        "zero": "at zero",
        "data": "training inputs, drawn per network",
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
    found = []
    for networks, some in drawn_networks(
        context,
        indices,
        batch_norm=options.batch_norm,
        calibration=calibration,
    ):
        points = probing_points(
            context,
            some,
            inputs=options.inputs,
            **law,
        )
        if options.opposite:
            points = torch.cat([points, -points], 1)
        found.append(probed_gradients(networks, points, rows_mix=options.batch_norm == "batch"))
    return {"gradients": torch.cat(found)}
