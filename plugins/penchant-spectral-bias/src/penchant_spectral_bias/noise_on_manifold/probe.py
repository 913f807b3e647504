"""The probe `noise-on-manifold`: is white noise easier on a curved manifold than on a plane?

Clouds of inputs with the length and the spread of others, but not on their manifold.

How hard white noise is to learn depends on how far inputs are from the origin (their mean square
norm) and from each other (their total variance). A cloud that is compared with another has both of
it, exactly: it differs only in shape.
"""

import math
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples
from torch import Generator, Tensor, nn

from penchant_spectral_bias.declarations.images import NoiseOnManifold
from penchant_spectral_bias.noise_on_manifold.autoencoder import reconstructions
from penchant_spectral_bias.shared.two_classes import first_outputs, followed, squared_error
from penchant_spectral_bias.shared.waves import check_loss, evaluation_steps, warn_above_constant

ENCODER_NOISE = 0.2  # standard deviation of the noise that the autoencoder removes
ENCODER_BATCH = 128  # samples per step of the autoencoder
ENCODER_LEARNING_RATE = 1e-3  # of the autoencoder (Adam)
MANIFOLDS = ("manifold", "plane", "normal", "unscaled-plane")


def run(options: NoiseOnManifold, context: penchant.Context) -> penchant.Result:
    """Train the same network on every manifold, once a training."""
    check_loss(context, "squared-error")
    _check_sizes(options, context)
    steps = evaluation_steps(context, options.samples)
    shards = context.tables(
        noise_training, inside={"step": steps}, training=range(options.trainings)
    )
    losses = {f"{name}-loss": shards[f"{name}-loss"] for name in MANIFOLDS}
    variance = float(shards["target-variance"].values.mean())
    quantities = _quantities(losses, variance)
    for name in losses:
        warn_above_constant(context, quantities[name].value, variance, f"training ({name})")
    # the autoencoder has one number per training
    nulls = {
        "reconstruction-error": float(shards["image-variance"].values.mean()),
        "norm-ratio": 1.0,
    }
    for name, null in nulls.items():
        values = shards[name].values
        quantities[name] = penchant.Quantity.of(
            values, over="trainings", null=null, multiplicative=True
        )
    return penchant.Result(
        quantities,
        {"steps": np.array(steps), "reconstruction-error": shards["reconstruction-error"].values},
        tables={name: table.mean("training") for name, table in losses.items()},
        conventions={
            "targets": "U[0, 1], independent of the inputs",
            "unscaled plane": "U[0, 1] in the first values of the input, zero elsewhere",
            "plane": "the same, moved along its diagonal and stretched: the length of its mean and "
            "its total variance are those of the images, and so is its mean square norm",
            "normal": "normal with the mean and the covariance of the images, and their total "
            "variance exactly",
            "loss": "mean squared error on the training samples",
        },
    )


def _check_sizes(options: NoiseOnManifold, context: penchant.Context) -> None:
    size = math.prod(context.data.shape)
    available = len(context.data.train.inputs)
    if options.features >= size:
        raise penchant.Error(
            f"features must be below the {size} values of an input, found {options.features}"
        )
    if options.samples > available:
        raise penchant.Error(
            f"samples must be at most {available}, the training samples of the dataset, "
            f"found {options.samples}"
        )


def noise_training(context: penchant.Context, item: dict[str, int]) -> dict[str, Any]:
    """Losses on every manifold over one training, with the same targets and the same network."""
    training = item["training"]
    chosen = _chosen(context, training)
    images, error = _images(context, training, chosen)
    flat = images.flatten(1)
    plane = _plane(context, training)
    features = context.options.features
    normal = context.generator("normal", training)
    points = {
        "manifold": flat,
        "plane": matched_plane(plane, flat, features=features),
        "normal": normal_cloud(flat, generator=normal),
        "unscaled-plane": plane,
    }

    # white noise, the same on all of them
    generator = context.generator("targets", training)
    sampled = torch.rand(context.options.samples, generator=generator, device="cpu")
    targets = sampled.to(context.device, context.dtype)
    numbers: dict[str, Any] = {
        "reconstruction-error": error,
        "norm-ratio": _length(flat) / _length(plane),
        "image-variance": chosen.double().var(0, correction=0).mean(),
        "target-variance": targets.double().var(correction=0),
    }
    for name in MANIFOLDS:
        inputs = points[name].reshape(images.shape)
        numbers[f"{name}-loss"] = _losses(context, training, Samples(inputs, targets))
    return numbers


def _losses(context: penchant.Context, training: int, samples: Samples) -> Tensor:
    """Mean squared error at every recorded step of one training."""
    losses: list[Tensor] = []

    def evaluate(network: nn.Module) -> None:
        values = first_outputs(network, samples.inputs)
        loss = squared_error(values, samples.labels)
        losses.append(loss)

    followed(
        context, training, samples, evaluation_steps(context, context.options.samples), evaluate
    )
    return torch.stack(losses)


def _chosen(context: penchant.Context, training: int) -> Tensor:
    """Some training samples."""
    inputs = context.data.train.inputs
    generator = context.generator("samples", training)
    order = torch.randperm(len(inputs), generator=generator, device="cpu")
    # the first of a random order
    count = context.options.samples
    some = order[:count].to(context.device)
    chosen = inputs[some]
    if bool((chosen == chosen[0]).all()):
        raise penchant.Error(f"expected different inputs, found {count} equal ones")
    return chosen


def _images(context: penchant.Context, training: int, chosen: Tensor) -> tuple[Tensor, float]:
    """Reconstructions of samples, and their error."""
    options = context.options
    return reconstructions(
        chosen,
        features=options.features,
        width=options.encoder_width,
        noise=ENCODER_NOISE,
        steps=options.encoder_steps,
        batch=ENCODER_BATCH,
        learning_rate=ENCODER_LEARNING_RATE,
        generator=context.generator("autoencoder", training),
    )


def _plane(context: penchant.Context, training: int) -> Tensor:
    """Uniform numbers in the first values of the input, zero elsewhere, (samples, D)."""
    count = context.options.samples
    features = context.options.features
    generator = context.generator("plane", training)
    sampled = torch.rand(count, features, generator=generator, device="cpu")
    values = sampled.to(context.device, context.dtype)

    # the plane lies along the first values of the input
    size = math.prod(context.data.shape)
    flat = torch.zeros(count, size, device=context.device, dtype=context.dtype)
    flat[:, :features] = values
    return flat


def _length(points: Tensor) -> Tensor:
    """Root mean square norm of points."""
    squares = points.square().sum(1)
    return squares.mean().sqrt()


def _quantities(losses: dict[str, penchant.Table], variance: float) -> dict[str, penchant.Quantity]:
    """Of losses (training, step) at their last step."""
    final = {name: loss.at(step=loss.axes["step"][-1]) for name, loss in losses.items()}
    quantities = {}
    # the same samples, targets and network, so that differences are taken training by training
    for name in ("plane", "normal", "unscaled-plane"):
        difference = final["manifold-loss"].minus(final[f"{name}-loss"])
        quantities[f"manifold-minus-{name}"] = difference.mean("training", null=0.0).quantity()
    for name, loss in final.items():
        quantities[name] = loss.mean("training", null=variance).quantity()
    return quantities


def matched_plane(plane: Tensor, like: Tensor, *, features: int) -> Tensor:
    """Points of a plane, moved and stretched within it.

    Args:
        plane: Points (samples, D), zero but for their first `features` values.
        like: Points (samples, D), whose mean has the length and whose total variance is the one
            that the plane is given; with both it has their mean square norm.
        features: Dimensions of the plane.

    Returns:
        Points (samples, D) of the same plane.
    """
    centred = plane - plane.mean(0)
    length = like.mean(0).norm()
    ratio = _spread(like) / _spread(plane)
    # the mean lies on the diagonal of the plane
    mean = torch.zeros_like(plane[0])
    mean[:features] = length / features**0.5
    return mean + ratio * centred


def normal_cloud(like: Tensor, *, generator: Generator) -> Tensor:
    """Normal points (samples, D) with the mean and the covariance of others.

    Args:
        like: Points (samples, D).
        generator: A generator on the CPU.

    Returns:
        As many points; their own mean square norm and total variance are those of `like`.
    """
    mean = like.mean(0)
    centred = (like - mean).double()
    covariance = centred.T @ centred / len(like)
    values, vectors = torch.linalg.eigh(covariance)
    root = vectors * values.clamp(min=0).sqrt() @ vectors.T
    sampled = torch.randn(like.shape, generator=generator, device="cpu", dtype=torch.float64)
    cloud = (sampled.to(like.device) @ root).to(like.dtype)
    away = cloud - cloud.mean(0)
    matched: Tensor = mean + away * (_spread(like) / _spread(away))
    return matched


def _spread(points: Tensor) -> Tensor:
    """The root of the total variance of points (samples, D)."""
    return points.double().var(0, correction=0).sum().sqrt().to(points.dtype)
