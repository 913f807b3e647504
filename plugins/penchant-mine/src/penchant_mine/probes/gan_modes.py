"""The probe `gan-modes`: modes of the data that a GAN captures, with and without information."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.data import Data
from penchant_numerics.ensembles import constructed
from torch import Tensor, nn

from penchant_mine.declarations.generative import GanModes
from penchant_mine.numerics.generative.gan import GanRecipe, Players, generate, train_gan
from penchant_mine.numerics.generative.modes import (
    Judge,
    coverage,
    digit_judge,
    digit_network,
    normal_judge,
    train_digit_network,
    uniform_cloud,
)
from penchant_mine.numerics.generative.networks import (
    ConditionedScores,
    Downwards,
    Joined,
    Upwards,
    perceptron,
)
from penchant_mine.numerics.generative.pixels import scaled, shown
from penchant_mine.numerics.recipes import recipe_from
from penchant_mine.shared.mode_counts import mode_count

VARIANTS = ("gan", "mine")
QUOTED = {  # table 5.1: modes and KL
    "DCGAN": (99.0, 3.40),
    "ALI": (16.0, 5.40),
    "Unrolled GAN": (48.7, 4.32),
    "VEEGAN": (150.0, 2.95),
    "PacGAN": (1000.0, 0.06),
}
TRUSTED = 0.8  # accuracy of the classifier of digits, below which counts are unsure
DIFFUSE = 0.5  # share of samples near a mode, below which modes are those of a cloud
WELL_ABOVE = 2.0  # times the quality of a uniform cloud, below which the KL is meaningless
HALF_WAY = 0.5  # from that quality to 1: enough where modes fill most of the box
COLLAPSED = 0.95  # share of samples in the fullest mode, from which on one mode is left
LEARNING_RATES = {1: 1e-3, 3: 2e-4}  # by the number of axes of an input: points, images


def run(options: GanModes, context: penchant.Context) -> penchant.Result:
    """Train every variant `trainings` times, one shard each."""
    _check(context.data)
    # Both variants of a training begin from the same random numbers.
    items = []
    for variant in VARIANTS:
        items += [{"variant": variant, "training": n} for n in range(options.trainings)]
    classifier = _classifier(options, context)
    shards = list(context.map(measure, items, shared=classifier))
    by_variant = {"gan": shards[: options.trainings], "mine": shards[options.trainings :]}
    # Numbers of every training, and their means.
    quantities = _quantities(context, by_variant)
    arrays: dict[str, Any] = {"samples-data": shown(scaled(context.data.test.inputs))}
    for name, rows in by_variant.items():
        arrays[f"samples-{name}"] = rows[0]["samples"]
        for key in ("modes", "kl"):
            values = [row[key] for row in rows]
            arrays[f"{key}-by-training-{name}"] = np.array(values)
    if context.data.classes == 1000:
        arrays["quoted"] = np.array(list(QUOTED.values()))
        context.conventions["quoted"] = (
            f"modes and KL of {', '.join(QUOTED)}: quoted from table 5.1, not measured here"
        )
    _note(options, context)
    return penchant.Result(
        quantities,
        arrays,
        labels={"quoted": tuple(QUOTED)},
        missing=tuple(name for name, shards in quantities.items() if shards.missing),
    )


def _check(data: Data) -> None:
    """Refuse data whose modes cannot be distinguished."""
    if not data.classes and data.train.labels.numel() != len(data.train.labels):
        raise penchant.Error(
            "gan-modes needs labels that are classes, or one number per sample, to define modes"
        )
    inputs = data.train.inputs
    if bool((inputs == inputs[:1]).all()):
        raise penchant.Error("gan-modes needs samples that differ, found all of them equal")
    # Stacked digits: one of ten in every channel.
    if len(data.shape) != 3:
        return
    channels = data.shape[0]
    if 10**channels != data.classes:
        raise penchant.Error(
            f"images of {channels} channels must have {10**channels} modes, a digit each, found "
            f"{data.classes}"
        )


def _note(options: GanModes, context: penchant.Context) -> None:
    images = len(context.data.shape) == 3
    judge = (
        "a classifier of digits trained in the run"
        if images
        else "likeliest of one normal per mode, within 4 standard deviations"
    )
    context.conventions["modes"] = (
        f"{judge}; captured with at least {options.captured:g} of its due samples"
    )
    context.conventions["kl"] = (
        "of the samples' modes to the data's, over samples that belong to a mode; null: test data; "
        f"for points only where {WELL_ABOVE:g} times as many do as of a uniform cloud, or half of "
        "those that it leaves"
    )
    context.conventions["information"] = (
        "Donsker-Varadhan on training batches of the last tenth of the steps, between samples and "
        "code"
    )
    if not context.data.classes:
        context.conventions["modes of unlabelled data"] = (
            f"{options.segments} segments of equal frequency of the label"
        )


def _quantities(
    context: penchant.Context, by_variant: dict[str, list[dict[str, Any]]]
) -> dict[str, penchant.Quantity]:
    keys = ["modes", "modes-seen", "kl"]
    if len(context.data.shape) != 3:
        keys.append("quality")  # a classifier of digits sees a mode in everything
    quantities = {}
    for key in keys:
        null = float(np.mean(_column(by_variant["gan"], f"null-{key}")))
        for name, rows in by_variant.items():
            values = _column(rows, key)
            if key in ("modes", "modes-seen"):
                quantities[f"{key}-{name}"] = mode_count(values, null)
            else:
                unit = "nats" if key == "kl" else ""
                quantities[f"{key}-{name}"] = penchant.Quantity.of(
                    values, over="trainings", null=null, unit=unit
                )
    # Only one variant has a statistics network.
    quantities["information-mine"] = penchant.Quantity.of(
        _column(by_variant["mine"], "information"), over="trainings", null=0.0, unit="nats"
    )
    for name, rows in by_variant.items():
        _warn_if_collapsed(context, name, rows)
    if "quality" in keys:
        quantities |= _uniform(by_variant["gan"])
        for name in by_variant:
            quantities[f"kl-{name}"] = _trusted_kl(context, name, quantities)
    return quantities


def _column(rows: list[dict[str, Any]], key: str) -> list[float]:
    return [row[key] for row in rows]


def _uniform(rows: list[dict[str, Any]]) -> dict[str, penchant.Quantity]:
    """What points spread evenly over the box of the data give: they touch every mode."""
    over = "draws of as many points"
    return {
        "kl-uniform": penchant.Quantity.of(_column(rows, "uniform-kl"), over=over, unit="nats"),
        "quality-uniform": penchant.Quantity.of(_column(rows, "uniform-quality"), over=over),
    }


def _trusted_kl(
    context: penchant.Context, name: str, quantities: dict[str, penchant.Quantity]
) -> penchant.Quantity:
    """The KL, or none where samples are hardly nearer to modes than a uniform cloud."""
    kl, quality = quantities[f"kl-{name}"], quantities[f"quality-{name}"].value
    uniform = quantities["quality-uniform"].value
    if quality < DIFFUSE:
        context.warn(
            f"{name}: only {quality:.2f} of the samples lie near a mode, so its modes are "
            "those of a cloud: train longer, or with another learning_rate"
        )
    needed = min(WELL_ABOVE * uniform, uniform + HALF_WAY * (1 - uniform))
    if quality >= needed:
        return kl
    context.warn(
        f"{name}: {quality:.2f} of the samples lie near a mode, of points spread evenly "
        f"{uniform:.2f}, expected at least {needed:.2f}: its KL of {kl.value:.3g} is meaningless "
        "and left out"
    )
    return attrs.evolve(kl, value=math.nan, stderr=None, df=None)


def _warn_if_collapsed(context: penchant.Context, name: str, rows: list[dict[str, Any]]) -> None:
    collapsed = sum(share >= COLLAPSED for share in _column(rows, "fullest"))
    if collapsed:
        context.warn(
            f"{name}: {collapsed} of {len(rows)} trainings have one mode left, with at least "
            f"{COLLAPSED:g} of the samples: a smaller learning_rate may help"
        )


def measure(context: penchant.Context, item: dict[str, Any]) -> dict[str, Any]:
    """Train one GAN and judge its samples; the null judges as many samples of the test data."""
    options: GanModes = context.options
    variant, training = item["variant"], item["training"]
    data = context.data
    inputs = scaled(data.train.inputs)
    generator = context.generator("training", training)
    rate = options.learning_rate or LEARNING_RATES.get(len(data.shape), LEARNING_RATES[1])
    recipe = recipe_from(GanRecipe, options, learning_rate=rate)
    # Networks come from the seed of the training, batches from its stream.
    players = _players(options, data.shape, generator.initial_seed(), variant, inputs.device)
    information = train_gan(players, inputs, recipe, generator)
    samples = generate(
        players.generator,
        options.samples,
        recipe,
        context.generator("judged", training),
        inputs.device,
    )
    if not torch.isfinite(samples).all():
        raise penchant.Error(
            f"{variant}, training {training}: the generator diverged; a smaller learning_rate than "
            f"{recipe.learning_rate:g} may help"
        )
    covered = _covered(context, samples, training)
    return {**covered, "information": information, "samples": shown(samples)}


def _covered(context: penchant.Context, samples: Tensor, training: int) -> dict[str, Any]:
    """Modes among the samples, for the null among test data, and among points spread evenly."""
    options, data = context.options, context.data
    labels, modes = _modes_of(data, options)
    judge = _judge(context, scaled(data.train.inputs), labels, modes)
    counts = torch.bincount(labels, minlength=modes)
    share = counts.to(torch.float64) / len(labels)
    captured = options.captured
    numbers: dict[str, Any] = coverage(judge(samples), share, captured=captured)
    # As many test data as samples, where there are as many.
    fresh = scaled(data.test.inputs)[: len(samples)]
    others = {"null": fresh}
    if samples.ndim == 2:
        generator = context.generator("uniform", training)
        others["uniform"] = uniform_cloud(data.train.inputs, len(samples), generator)
    for name, points in others.items():
        judged = coverage(judge(points), share, captured=captured)
        numbers |= {f"{name}-{key}": value for key, value in judged.items()}
    return numbers


def _modes_of(data: Data, options: GanModes) -> tuple[Tensor, int]:
    """Mode numbers of the training samples: classes, or segments of equal frequency of a label."""
    if data.classes:
        return data.train.labels, data.classes
    along = data.train.labels.flatten()
    # Cuts at equal frequency, from a limited number of labels.
    positions = torch.linspace(0, 1, options.segments + 1, device=along.device, dtype=along.dtype)
    edges = torch.quantile(along[:100000], positions[1:-1])
    return torch.bucketize(along, edges.contiguous()), options.segments


def _classifier(options: GanModes, context: penchant.Context) -> dict[str, Tensor]:
    """For images: weights of the classifier that counts modes, trained once for all shards."""
    if len(context.data.shape) != 3:
        return {}
    network, accuracy = train_digit_network(
        scaled(context.data.train.inputs),
        context.data.train.labels,
        steps=options.classifier_steps,
        channels=options.channels[:2],
        generator=context.generator("classifier"),
    )
    context.conventions["accuracy of the classifier"] = (
        f"{accuracy:.4f}, all channels right, on samples it was not trained on"
    )
    if accuracy < TRUSTED:
        context.warn(
            f"the classifier that counts modes is right about all channels of {accuracy:.2g} of "
            "images only: counts are unsure"
        )
    return dict(network.state_dict())


def _judge(context: penchant.Context, inputs: Tensor, labels: Tensor, modes: int) -> Judge:
    if inputs.ndim != 4:
        try:
            return normal_judge(inputs, labels, modes)
        except ValueError as error:
            raise penchant.Error(f"gan-modes: {error}") from None
    channels = context.options.channels[:2]
    network = constructed(lambda: digit_network(inputs.shape[2:], channels), 0)
    network.to(inputs.device).load_state_dict(dict(context.shared))
    return digit_judge(network.eval())


def _players(
    options: GanModes, shape: tuple[int, ...], seed: int, variant: str, device: torch.device
) -> Players:
    """Networks number 0, 1, 2 of a seed; the third only where information is estimated."""
    if len(shape) == 3:
        makers = _image_makers(options, shape)
    else:
        makers = _point_makers(options, shape)
    if variant != "mine":
        makers.pop("statistics")
    made = {}
    for number, (name, make) in enumerate(makers.items()):
        made[name] = constructed(make, seed + number).to(device)
    return Players(made["generator"], made["discriminator"], made.get("statistics"))


Makers = dict[str, Callable[[], nn.Module]]


def _point_makers(options: GanModes, shape: tuple[int, ...]) -> Makers:
    size = math.prod(shape)
    latent = options.noise_inputs + options.code
    hidden = options.discriminator
    return {
        "generator": lambda: perceptron([latent, *options.generator, size], batch_norm=True),
        "discriminator": lambda: perceptron([size, *hidden, 1]),
        "statistics": lambda: Joined([size + options.code, *hidden, 1]),
    }


def _image_makers(options: GanModes, shape: tuple[int, ...]) -> Makers:
    channels, code, hidden = options.channels, options.code, options.hidden
    latent = options.noise_inputs + code
    narrow = [max(1, width // 4) for width in channels[:3]]
    return {
        "generator": lambda: Upwards(latent, shape, channels),
        "discriminator": lambda: Downwards(shape, channels, 1),
        "statistics": lambda: ConditionedScores(shape, code, narrow, hidden, "elu"),
    }
