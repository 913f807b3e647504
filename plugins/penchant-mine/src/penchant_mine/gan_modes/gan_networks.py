"""The networks of a GAN with information, as the options of `gan-modes` describe them."""

import math
from collections.abc import Callable

import torch
from penchant_numerics.training import constructed
from torch import nn

from penchant_mine.declarations.generative import GanModes
from penchant_mine.shared.generative.gan import Players
from penchant_mine.shared.generative.networks import (
    ConditionedScores,
    Downwards,
    Joined,
    Upwards,
    perceptron,
)

Makers = dict[str, Callable[[], nn.Module]]


def gan_players(
    options: GanModes, shape: tuple[int, ...], seed: int, device: torch.device, *, informed: bool
) -> Players:
    """Networks number 0, 1, 2 of a seed; the third only where information is estimated."""
    makers = _image_makers(options, shape) if len(shape) == 3 else _point_makers(options, shape)
    if not informed:
        makers.pop("statistics")
    made = {}
    for number, (name, make) in enumerate(makers.items()):
        made[name] = constructed(make, seed + number).to(device)
    return Players(made["generator"], made["discriminator"], made.get("statistics"))


def perceptron_widths(options: GanModes, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Widths of all hidden layers where networks are perceptrons, those of points."""
    if len(shape) == 3:
        return None
    return (*options.generator, *options.discriminator, *(options.statistics or ()))


def _point_makers(options: GanModes, shape: tuple[int, ...]) -> Makers:
    size = math.prod(shape)
    latent = options.noise_inputs + options.code
    of_discriminator = options.discriminator
    of_statistics = options.statistics or of_discriminator
    activation = options.activation or "leaky-relu"

    def generator() -> nn.Module:
        sizes = [latent, *options.generator, size]
        batch_norm = options.generator_normalization == "batch"
        return perceptron(sizes, batch_norm=batch_norm, activation=activation)

    def discriminator() -> nn.Module:
        batch_norm = options.discriminator_normalization == "batch"
        return perceptron(
            [size, *of_discriminator, 1], batch_norm=batch_norm, activation=activation
        )

    def statistics() -> nn.Module:
        return Joined([size + options.code, *of_statistics, 1], activation=activation)

    return {"generator": generator, "discriminator": discriminator, "statistics": statistics}


def _image_makers(options: GanModes, shape: tuple[int, ...]) -> Makers:
    code = options.code
    latent = options.noise_inputs + code
    channels = options.channels
    of_generator = options.generator_channels or channels
    of_statistics = options.statistics_channels or [max(1, width // 4) for width in channels[:3]]
    activation = options.activation or "relu"

    def generator() -> nn.Module:
        batch_norm = options.generator_normalization == "batch"
        return Upwards(latent, shape, of_generator, batch_norm=batch_norm, activation=activation)

    def discriminator() -> nn.Module:
        batch_norm = options.discriminator_normalization != "none"
        return Downwards(shape, channels, 1, batch_norm=batch_norm, activation=activation)

    def statistics() -> nn.Module:
        return ConditionedScores(shape, code, of_statistics, options.hidden, "elu")

    return {"generator": generator, "discriminator": discriminator, "statistics": statistics}
