"""The probe `gan-modes`: modes of the data that a GAN captures, with and without information."""

import math
from typing import Any

import attrs
import numpy as np
import penchant
import torch
from penchant_numerics.data import Data
from penchant_numerics.training import shard_of
from torch import Tensor

from penchant_mine.declarations.generative import GanModes
from penchant_mine.gan_modes.gan_networks import gan_players, perceptron_widths
from penchant_mine.gan_modes.mode_judges import (
    FARTHEST,
    NULLS,
    OF_NULLS,
    SEGMENTS,
    SURE,
    covered_by_none,
    digit_classifier,
    modes_of,
)
from penchant_mine.shared.generative.gan import GanRecipe, generate, train_gans
from penchant_mine.shared.generative.modes import mode_count, scaled, shown
from penchant_mine.shared.generative.network_stacks import groups, map_stacked
from penchant_mine.shared.recipes import recipe_from

VARIANTS = ("gan", "mine")
QUOTED = {  # table 5.1: modes and KL
    "DCGAN": (99.0, 3.40),
    "ALI": (16.0, 5.40),
    "Unrolled GAN": (48.7, 4.32),
    "VEEGAN": (150.0, 2.95),
    "PacGAN": (1000.0, 0.06),
}
ALONG = ("modes", "modes-covered", "kl")  # judged along training
COUNTS = ("modes", "modes-covered", "modes-seen")
DIFFUSE = 0.5  # share of samples near a mode, below which modes are those of a cloud
WELL_ABOVE = 2.0  # times the quality of a uniform cloud, below which the KL is meaningless
HALF_WAY = 0.5  # from that quality to 1: enough where modes fill most of the box
COLLAPSED = 0.95  # share of samples in the fullest mode, from which on one mode is left
LEARNING_RATES = {1: 1e-3, 3: 2e-4}  # by the number of axes of an input: points, images


def run(options: GanModes, context: penchant.Context) -> penchant.Result:
    """Train every variant `trainings` times, those of narrow perceptrons side by side."""
    _check(context.data)
    classifier = digit_classifier(options, context)
    trainings = groups(options.trainings, perceptron_widths(options, context.data.shape))
    # Both variants of a training begin from the same random numbers.
    by_variant = map_stacked(context, measure, VARIANTS, trainings, shared=classifier)
    # Numbers of every training, and their means.
    quantities = _quantities(context, by_variant)
    arrays: dict[str, Any] = {"samples-data": shown(scaled(context.data.test.inputs))}
    for name, rows in by_variant.items():
        arrays[f"samples-{name}"] = rows[0]["samples"]
        for key in ("modes", "kl"):
            values = [row[key] for row in rows]
            arrays[f"{key}-by-training-{name}"] = np.array(values)
        arrays[f"samples-by-step-{name}"] = rows[0]["samples-by-step"]
    tables = _along(options, by_variant)
    if context.data.classes == 1000:
        arrays["quoted"] = np.array(list(QUOTED.values()))
        context.conventions["quoted"] = (
            f"modes and KL of {', '.join(QUOTED)}: quoted from table 5.1, not measured here"
        )
    _note(options, context)
    return penchant.Result(
        quantities,
        arrays,
        tables=tables,
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
    judge = "likeliest of one normal per mode, within 4 standard deviations"
    if images:
        judge = "a classifier of digits trained in the run"
    elif not context.data.classes:
        judge = (
            f"{SEGMENTS} pieces of equal frequency of the curve along the label, within "
            f"{FARTHEST:g} standard deviations of it"
        )
    context.conventions["modes"] = (
        f"{judge}; captured with at least {options.captured:g} of its due samples"
    )
    context.conventions["kl"] = (
        "of the samples' modes to the data's, over samples that belong to a mode; null: test data; "
        f"for points only where {WELL_ABOVE:g} times as many do as of a uniform cloud, or half of "
        "those that it leaves"
    )
    pairs = "samples and their code"
    if options.information_with == "independent":
        pairs = "samples and an independent draw of a code: a control, whose truth is 0"
    context.conventions["information"] = (
        "Donsker-Varadhan on training batches of the last tenth of the steps, between " + pairs
    )
    if images:
        context.conventions["sure"] = f"a digit of probability {SURE:g} or more in every channel"


def _quantities(
    context: penchant.Context, by_variant: dict[str, list[dict[str, Any]]]
) -> dict[str, penchant.Quantity]:
    images = len(context.data.shape) == 3
    # A classifier of digits sees a mode in everything, but it is not always sure.
    keys = [*COUNTS, "kl", "sure" if images else "quality"]
    quantities = {}
    for key in keys:
        null = float(np.mean(_column(by_variant["gan"], f"null-{key}")))
        for name, rows in by_variant.items():
            values = _column(rows, key)
            if key in COUNTS:
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
    if images:
        quantities |= _of_nulls(by_variant["gan"])
    else:
        quantities |= _uniform(by_variant["gan"])
        for name in by_variant:
            quantities[f"kl-{name}"] = _trusted_kl(context, name, quantities)
    return quantities


def _along(
    options: GanModes, by_variant: dict[str, list[dict[str, Any]]]
) -> dict[str, penchant.Table]:
    """Modes and KL by variant and step, means over trainings."""
    axes: dict[str, Any] = {"variant": VARIANTS, "training": range(options.trainings)}
    axes["step"] = eval_steps(options)
    tables = {}
    for key in ALONG:
        name = f"{key}-by-step"
        values = [[row[name] for row in rows] for rows in by_variant.values()]
        null = float(np.mean(_column(by_variant["gan"], f"null-{key}")))
        unit = "nats" if key == "kl" else ""
        tables[name] = penchant.Table(values, axes, unit=unit).mean("training", null=null)
    return tables


def _of_nulls(rows: list[dict[str, Any]]) -> dict[str, penchant.Quantity]:
    """What the classifier sees in images that no generator made."""
    quantities = {}
    for name in NULLS:
        for key in OF_NULLS:
            values = _column(rows, f"{name}-{key}")
            quantities[f"{key}-{name}"] = penchant.Quantity.of(
                values, over="draws of as many images"
            )
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
    """Train GANs side by side and judge their samples, on the way too; the null judges test data.

    The row of each is that of its training alone, up to rounding.
    """
    numbers: list[int] = item["trainings"]
    return shard_of(numbers, lambda trainings: _trained(context, item["variant"], trainings))


def _trained(context: penchant.Context, variant: str, trainings: list[int]) -> list[dict[str, Any]]:
    options: GanModes = context.options
    data = context.data
    inputs = scaled(data.train.inputs)
    rate = options.learning_rate or LEARNING_RATES.get(len(data.shape), LEARNING_RATES[1])
    recipe = recipe_from(GanRecipe, options, learning_rate=rate)
    # Networks come from the seed of the training, batches from its stream.
    generators = [context.generator("training", training) for training in trainings]
    players = []
    for generator in generators:
        seed = generator.initial_seed()
        made = gan_players(options, data.shape, seed, inputs.device, informed=variant == "mine")
        players.append(made)
    modes = modes_of(context)

    def sampled(position: int, *keys: int) -> Tensor:
        training = trainings[position]
        stream = context.generator("judged", training, *keys)
        network = players[position].generator
        samples = generate(network, options.samples, recipe, stream, inputs.device)
        if not torch.isfinite(samples).all():
            raise penchant.Error(
                f"{variant}, training {training}: the generator diverged; a smaller learning_rate "
                f"than {rate:g} may help"
            )
        return samples

    along: list[list[dict[str, float]]] = [[] for _ in trainings]
    pictured: list[list[Tensor]] = [[] for _ in trainings]

    def observe(step: int) -> None:
        for position in range(len(trainings)):
            samples = sampled(position, step)
            along[position].append(modes.covered(samples))
            pictured[position].append(shown(samples))

    on_the_way = eval_steps(options)[:-1]
    information = train_gans(
        players, inputs, recipe, generators, observe=observe, observed_steps=on_the_way
    )
    rows = []
    for position, training in enumerate(trainings):
        # Judged last, as if nothing had been judged before.
        samples = sampled(position)
        covered = modes.covered(samples)
        row: dict[str, Any] = {**covered, "information": information[position]}
        row["samples"] = shown(samples)
        row["samples-by-step"] = torch.stack([*pictured[position], shown(samples)])
        for key in ALONG:
            values = [each[key] for each in (*along[position], covered)]
            row[f"{key}-by-step"] = np.array(values)
        # One variant is enough: nulls do not depend on it.
        if variant == VARIANTS[0]:
            row |= covered_by_none(context, modes, training)
        rows.append(row)
    return rows


def eval_steps(options: GanModes) -> tuple[int, ...]:
    """After how many steps samples are judged: always at the end."""
    every = options.eval_every or options.steps
    return (*range(every, options.steps, every), options.steps)
