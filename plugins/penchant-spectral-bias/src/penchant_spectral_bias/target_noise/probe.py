"""The probe `target-noise`: what noise of low and high frequency in targets does to validation."""

import math
from typing import Any

import numpy as np
import penchant
import torch
from penchant_numerics.data import Samples
from torch import Tensor, nn

from penchant_spectral_bias.declarations.images import TargetNoise
from penchant_spectral_bias.shared.two_classes import (
    check_classes,
    clean_samples,
    evaluated_steps,
    first_outputs,
    followed,
    squared_error,
    two_classes,
)
from penchant_spectral_bias.shared.waves import against_control, check_loss, warn_above_constant

LOSSES = ("training-loss", "validation-loss")


def run(options: TargetNoise, context: penchant.Context) -> penchant.Result:
    """Train on every kind of noise and without any; each training is a shard."""
    check_loss(context, "squared-error")
    check_classes(context, options.chosen_classes)
    steps = evaluated_steps(context)
    trainings = range(options.trainings)
    clean = context.tables(noisy_training, inside={"step": steps}, training=trainings)
    noisy = context.tables(
        noisy_training,
        inside={"step": steps},
        shuffled=(False, True),
        amplitude=options.noise_amplitudes,
        frequency=options.noise_frequencies,
        training=trainings,
    )
    best = noisy["validation-loss"].reduced(np.min, "step")
    clean_best = clean["validation-loss"].reduced(np.min, "step")
    tables = {
        "best-loss": best.at(shuffled=False).mean("training"),
        "shuffled-best-loss": best.at(shuffled=True).mean("training"),
    }
    for name in LOSSES:
        tables[name] = noisy[name].at(shuffled=False).mean("training")
        tables[f"clean-{name}"] = clean[name].mean("training")

    # the loss of the best constant, which is the mean
    variances = np.append(clean["variance"].values, noisy["variance"].values)
    null = float(variances.mean())
    quantities = _quantities(best, clean_best)
    quantities["clean-best-loss"] = clean_best.mean("training", null=null).quantity()
    warn_above_constant(
        context, quantities["clean-best-loss"].value, null, "training without noise"
    )
    return penchant.Result(
        quantities,
        {
            "frequencies": best.coordinates("frequency"),
            "amplitudes": best.coordinates("amplitude"),
            "steps": np.array(steps),
        },
        tables=tables,
        conventions={
            "noise": "amplitude times sin(2 pi k |x|), k in cycles per unit of length",
            "validation": "mean squared error on clean targets 0 and 1 of test samples; best over "
            "recorded steps",
            "null": "the same noise values, permuted among samples",
        },
    )


def _quantities(best: penchant.Table, clean: penchant.Table) -> dict[str, penchant.Quantity]:
    """Of best losses (shuffled, amplitude, frequency, training), and those without noise."""
    # noise is compared at its largest, where it shows
    frequencies = best.axes["frequency"]
    largest = best.at(amplitude=max(best.axes["amplitude"]))
    low, high = largest.at(frequency=min(frequencies)), largest.at(frequency=max(frequencies))
    compared = {
        "low-minus-high": low.minus(high),
        "excess-low": low.minus(clean),
        "excess-high": high.minus(clean),
    }
    # the same samples and networks, so that differences are taken training by training
    return {
        name: against_control(each.at(shuffled=False), each.at(shuffled=True), paired=True)
        for name, each in compared.items()
    }


def noisy_training(context: penchant.Context, item: dict[str, Any]) -> dict[str, Any]:
    """Losses over one training: on its noisy targets, and on clean targets of other samples."""
    options = context.options
    training = item["training"]
    clean = clean_samples(context, training)
    generator = context.generator("validation", training)
    held_out = two_classes(
        context.data.test, options.chosen_classes, options.test_samples, generator
    )

    # no noise; the wave; or its values permuted among samples
    noise = radial_wave(clean.inputs, item.get("frequency", 0.0))
    if item.get("shuffled"):
        generator = context.generator("shuffle", training)
        order = torch.randperm(len(noise), generator=generator, device="cpu")
        noise = noise[order.to(noise.device)]
    noisy = Samples(clean.inputs, clean.labels + item.get("amplitude", 0.0) * noise)
    losses: dict[str, list[Tensor]] = {name: [] for name in LOSSES}

    def evaluate(network: nn.Module) -> None:
        for name, samples in zip(LOSSES, (noisy, held_out)):
            values = first_outputs(network, samples.inputs)
            loss = squared_error(values, samples.labels)
            losses[name].append(loss)

    followed(context, training, noisy, evaluated_steps(context), evaluate)
    curves = {name: torch.stack(values) for name, values in losses.items()}
    return {**curves, "variance": held_out.labels.double().var(correction=0)}


def radial_wave(inputs: Tensor, frequency: float) -> Tensor:
    """sin(2 pi k |x|), k in cycles per unit of length.

    The paper prints sin(k |x|), in which no frequency it uses is high.
    """
    vectors = inputs.flatten(1)
    lengths = vectors.double().norm(dim=1)

    # an angle in radians from cycles
    angle = 2 * math.pi * frequency * lengths
    values = torch.sin(angle)
    return values.to(inputs.dtype)
