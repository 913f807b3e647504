"""The probe `noise-on-manifold`: is white noise easier to learn on a curved manifold than on a plane?"""

from __future__ import annotations

import math
from typing import Any

import penchant
import torch
from penchant_numerics.data import Samples
from torch import Tensor

from penchant_spectral_bias.numerics.autoencoder import reconstructions
from penchant_spectral_bias.numerics.rank_correlation import mean_and_error
from penchant_spectral_bias.numerics.side_by_side import recorded_steps
from penchant_spectral_bias.probes.curves import check_regression
from penchant_spectral_bias.probes.images import first_outputs, followed, squared_error

ENCODER = {
    "features": "features",
    "width": "encoder_width",
    "noise": "encoder_noise",
    "steps": "encoder_steps",
}
ENCODER |= {"batch": "encoder_batch", "learning_rate": "encoder_learning_rate"}


def run(options: Any, context: Any) -> penchant.Result:
    """Train the same network on both manifolds, once a draw."""
    check_regression(context, "noise-on-manifold")
    size, found = math.prod(context.data.shape), len(context.data.train.inputs)
    if options.features >= size:
        raise penchant.Error(
            f"features must be below the {size} values of an input, found {options.features}"
        )
    if options.samples > found:
        raise penchant.Error(
            f"samples must be at most {found}, the training samples of the dataset, found {options.samples}"
        )
    steps = recorded_steps(context.training.total_steps(options.samples), options.every)
    encoder = {name: getattr(options, option) for name, option in ENCODER.items()}
    base = {
        "encoder": encoder,
        "samples": options.samples,
        "match": options.match_norms,
        "steps": steps,
    }
    items = [
        {**base, "draw": draw, "manifold": name}
        for draw in range(options.draws)
        for name in ("images", "plane")
    ]
    rows = list(context.map(noise_training, items))
    curves, plane = (
        torch.stack([torch.as_tensor(row["loss"], device="cpu") for row in rows[start::2]])
        for start in (0, 1)
    )
    errors = torch.tensor(
        [row["reconstruction-error"] for row in rows[::2]], device="cpu", dtype=torch.float64
    )
    arrays: dict[str, Any] = {
        "steps": torch.tensor(steps, device="cpu"),
        "reconstruction-error": errors,
    }
    for name, values in (("manifold-loss", curves), ("plane-loss", plane)):
        arrays[name], arrays[f"{name}-stderr"] = mean_and_error(values)
    conventions = {
        "targets": "U[0, 1], independent of the inputs; variance 1/12",
        "plane": "U[0, 1] in the first values of the input, zero elsewhere"
        + (", scaled to the images' norm" if options.match_norms else ""),
        "loss": "mean squared error on the training samples",
    }
    return penchant.Result(_quantities(curves, plane, errors), arrays, conventions=conventions)


def noise_training(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Loss over one training, on reconstructions or on the plane; both have the same targets and the same network."""
    draw, count = item["draw"], item["samples"]
    images, error = torch.zeros(0, device=context.device), 0.0
    if item["manifold"] == "images" or item["match"]:
        order = torch.randperm(
            len(context.data.train.inputs),
            generator=context.generator("samples", draw),
            device="cpu",
        )
        chosen = context.data.train.inputs[order[:count].to(context.device)]
        images, error = reconstructions(
            chosen, generator=context.generator("autoencoder", draw), **item["encoder"]
        )
    inputs = images if item["manifold"] == "images" else _plane(context, item, images)
    targets = torch.rand(count, generator=context.generator("targets", draw), device="cpu").to(
        context.device, context.dtype
    )
    losses: list[Tensor] = []
    seed = context.generator("training", draw).initial_seed()
    network = context.network(draw, outputs=1)
    followed(
        *(context, network, Samples(inputs, targets), item["steps"], seed),
        look=lambda each: losses.append(squared_error(first_outputs(each, inputs), targets)),
    )
    return {"loss": torch.stack(losses), "reconstruction-error": error}


def _plane(context: Any, item: dict[str, Any], images: Tensor) -> Tensor:
    features, shape = item["encoder"]["features"], context.data.shape
    drawn = torch.rand(
        item["samples"], features, generator=context.generator("plane", item["draw"]), device="cpu"
    )
    flat = torch.zeros(
        item["samples"], math.prod(shape), device=context.device, dtype=context.dtype
    )
    flat[:, :features] = drawn.to(context.device, context.dtype)
    if item["match"]:
        flat *= images.flatten(1).square().sum(1).mean().sqrt() / flat.square().sum(1).mean().sqrt()
    return flat.reshape(-1, *shape)


def _quantities(curves: Tensor, plane: Tensor, errors: Tensor) -> dict[str, penchant.Quantity]:
    draws = len(curves)

    def quantity(values: Tensor, **more: Any) -> penchant.Quantity:
        mean, error = mean_and_error(values)
        return penchant.Quantity(
            float(mean),
            stderr=float(error) if draws > 1 else None,
            over="runs",
            count=draws,
            **more,
        )

    return {
        "manifold-minus-plane": quantity(curves[:, -1] - plane[:, -1], null=0.0),
        "manifold-loss": quantity(curves[:, -1], null=1 / 12),
        "plane-loss": quantity(plane[:, -1], null=1 / 12),
        "reconstruction-error": quantity(errors),
    }
