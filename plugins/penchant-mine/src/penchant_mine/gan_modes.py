"""The probe `gan-modes`: modes of the data that a GAN captures, with and without a term for information."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np
import penchant
import torch
from torch import Tensor

from penchant_mine import generative_figures
from penchant_mine._adversaries import (
    ConditionedScores,
    Downwards,
    Joined,
    Upwards,
    perceptron,
    seeded,
)
from penchant_mine._gan import GanRecipe, Players, generate, train_gan
from penchant_mine._modes import Judge, coverage, digit_judge, normal_judge

VARIANTS = ("gan", "mine")
QUOTED = {
    "DCGAN": (99.0, 3.40),
    "ALI": (16.0, 5.40),
    "Unrolled GAN": (48.7, 4.32),
    "VEEGAN": (150.0, 2.95),
    "PacGAN": (1000.0, 0.06),
}
SHOWN = 2000  # points of a variant that are kept for figures
PICTURES = 64


def run(options: Any, context: Any) -> penchant.Result:
    """Train every variant `repeats` times, one shard each."""
    shared = attrs.asdict(options)
    items = [[variant, repeat, shared] for variant in VARIANTS for repeat in range(options.repeats)]
    found = list(context.map(measure, items))
    by_variant = {
        name: found[number * options.repeats : (number + 1) * options.repeats]
        for number, name in enumerate(VARIANTS)
    }
    quantities = {}
    for key in ("modes", "kl", "quality"):
        null = [row[f"null-{key}"] for row in found[: options.repeats]]
        for name, rows in by_variant.items():
            quantities[f"{key}-{name}"] = _quantity([row[key] for row in rows], null)
    quantities["information-mine"] = _quantity(
        [row["information"] for row in by_variant["mine"]], None
    )
    arrays = {f"samples-{name}": rows[0]["samples"] for name, rows in by_variant.items()}
    arrays["samples-data"] = _shown(_scaled(context.data.test.inputs)).cpu().numpy()
    for name, rows in by_variant.items():
        arrays |= {
            f"{key}-by-training-{name}": np.array([row[key] for row in rows])
            for key in ("modes", "kl")
        }
    if context.data.classes == 1000:
        arrays["quoted"] = np.array(list(QUOTED.values()))
        context.conventions["quoted"] = (
            f"modes and KL of {', '.join(QUOTED)}: quoted from table 5.1, not measured here"
        )
    _note(options, context)
    return penchant.Result(quantities, arrays)


def _note(options: Any, context: Any) -> None:
    images = len(context.data.shape) == 3
    context.conventions["modes"] = (
        "a classifier of digits trained in the run"
        if images
        else "likeliest of one normal a mode, within 4 standard deviations"
    )
    context.conventions["kl"] = (
        "of the samples' modes to the data's, over samples that belong to a mode; null: test data"
    )
    context.conventions["information"] = (
        "Donsker-Varadhan on training batches of the last tenth of the steps, between samples and code"
    )
    if not context.data.classes:
        context.conventions["modes of unlabelled data"] = (
            f"{options.segments} segments of equal frequency of the label"
        )


def _quantity(values: list[float], null: list[float] | None) -> penchant.Quantity:
    numbers = np.array(values)
    stderr = float(numbers.std(ddof=1) / math.sqrt(len(numbers))) if len(numbers) > 1 else None
    extra = {} if null is None else {"null": float(np.mean(null))}
    return penchant.Quantity(
        float(numbers.mean()),
        stderr=stderr,
        over="independent trainings",
        count=len(numbers),
        **extra,
    )


def measure(context: Any, item: Any) -> dict[str, Any]:
    """Train one GAN and judge its samples; the null judges as many samples of the test data."""
    variant, repeat, options = item
    data = context.data
    inputs, labels, modes = _scaled(data.train.inputs), *_modes_of(data, options)
    judge = _judge(context, options, inputs, labels, modes)
    generator = context.generator("training", repeat)
    recipe = GanRecipe(**{name: options[name] for name in GanRecipe.__dataclass_fields__})
    players = _players(
        options,
        data.shape,
        generator.initial_seed(),
        inputs.device,
        with_statistics=variant == "mine",
    )
    information = train_gan(players, inputs, recipe, generator)
    samples = generate(
        players.generator,
        options["judged"],
        recipe,
        context.generator("judged", repeat),
        inputs.device,
    )
    if not torch.isfinite(samples).all():
        raise penchant.Error(
            f"{variant}, training {repeat}: the generator diverged; a smaller learning_rate than {recipe.learning_rate:g} may help"
        )
    share = torch.bincount(labels, minlength=modes).to(torch.float64) / len(labels)
    fresh = _scaled(data.test.inputs)[: options["judged"]]
    null = {f"null-{key}": value for key, value in coverage(judge(fresh), modes, share).items()}
    return {
        **coverage(judge(samples), modes, share),
        **null,
        "information": information,
        "samples": _shown(samples),
    }


def _scaled(inputs: Tensor) -> Tensor:
    """Pixels from [0, 1] to [-1, 1]; points as they are."""
    return 2 * inputs - 1 if inputs.ndim == 4 else inputs


def _shown(samples: Tensor) -> Tensor:
    return samples[:PICTURES] if samples.ndim == 4 else samples[:SHOWN]


def _modes_of(data: Any, options: Any) -> tuple[Tensor, int]:
    """Mode numbers of the training samples: their classes, or segments of equal frequency of a single numeric label."""
    if data.classes:
        return data.train.labels, data.classes
    along = data.train.labels.flatten()
    if len(along) != len(data.train.labels):
        raise penchant.Error(
            "gan-modes needs classes, or one number a sample as label, to tell modes apart"
        )
    edges = torch.quantile(
        along[:100000],
        torch.linspace(0, 1, options["segments"] + 1, device=along.device, dtype=along.dtype)[1:-1],
    )
    return torch.bucketize(along, edges.contiguous()), options["segments"]


def _judge(context: Any, options: Any, inputs: Tensor, labels: Tensor, modes: int) -> Judge:
    if inputs.ndim != 4:
        return normal_judge(inputs, labels, modes)
    if 10 ** inputs.shape[1] != modes:
        raise penchant.Error(
            f"images of {inputs.shape[1]} channels must have {10 ** inputs.shape[1]} modes, a digit each, found {modes}"
        )
    channels = tuple(options["channels"][:2])
    judge, accuracy = digit_judge(
        inputs,
        labels,
        steps=options["classifier_steps"],
        channels=channels,
        generator=context.generator("classifier"),
    )
    context.conventions["accuracy of the classifier"] = (
        f"{accuracy:.4f}, all channels right, on samples it was not trained on"
    )
    if accuracy < 0.8:
        context.warn(
            f"the classifier that counts modes is right about all channels of {accuracy:.2g} of images only: counts are unsure"
        )
    return judge


def _players(
    options: Any, shape: tuple[int, ...], seed: int, device: torch.device, *, with_statistics: bool
) -> Players:
    latent, code = options["noise"] + options["code"], options["code"]
    if len(shape) == 3:
        channels = options["channels"]
        statistics = [max(1, width // 4) for width in channels[:3]]
        makers = [
            lambda: Upwards(latent, shape, channels),
            lambda: Downwards(shape, channels, 1),
            lambda: ConditionedScores(shape, code, statistics, options["hidden"], "elu"),
        ]
    else:
        size, hidden = math.prod(shape), options["discriminator"]
        makers = [
            lambda: perceptron([latent, *options["generator"], size], batch_norm=True),
            lambda: perceptron([size, *hidden, 1]),
            lambda: Joined([size + code, *hidden, 1]),
        ]
    networks = [
        seeded(seed + number, make, device)
        for number, make in enumerate(makers[: 2 + with_statistics])
    ]
    return Players(networks[0], networks[1], networks[2] if with_statistics else None)


def plot(result: penchant.Result) -> dict[str, Any]:
    """Samples of data, GAN and GAN with information; modes and KL."""
    drawn = {
        "samples": generative_figures.samples(result, ("data", *VARIANTS)),
        "modes": generative_figures.modes(result, VARIANTS),
    }
    if "quoted" in result.arrays:
        drawn["table"] = generative_figures.table(result, VARIANTS, list(QUOTED))
    return drawn
