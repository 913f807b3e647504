"""The probe `target-noise`: what noise of low and high frequency in targets does to validation."""

from __future__ import annotations

import math
from typing import Any

import penchant
import torch
from penchant_numerics.data import Samples
from torch import Tensor, nn

from penchant_spectral_bias.declarations.images import TargetNoise
from penchant_spectral_bias.shared.averages import averages, stacked
from penchant_spectral_bias.shared.controls import against_control
from penchant_spectral_bias.shared.regression import check_loss, warn_above_constant
from penchant_spectral_bias.shared.two_classes import (
    check_classes,
    clean_samples,
    evaluated_steps,
    first_outputs,
    followed,
    squared_error,
    two_classes,
)

LOSSES = ("training-loss", "validation-loss")


def run(options: TargetNoise, context: penchant.Context) -> penchant.Result:
    """Train on every kind of noise and without any; each training is a shard."""
    check_loss(context, "squared-error")
    check_classes(context, options.chosen_classes)
    kinds = _kinds(options)
    items = []
    # in the order of kinds, and of trainings within each
    for kind in kinds:
        items += [{**kind, "training": training} for training in range(options.trainings)]
    shards = list(context.map(noisy_training, items))
    losses = {}
    for name, values in stacked(shards, LOSSES).items():
        losses[name] = values.reshape(len(kinds), options.trainings, -1).double()
    best = losses["validation-loss"].amin(-1)  # (kinds, trainings)
    variances = stacked(shards, ["variance"])["variance"]
    arrays = {
        "frequencies": torch.tensor(options.noise_frequencies, device="cpu", dtype=torch.float64),
        "amplitudes": torch.tensor(options.noise_amplitudes, device="cpu", dtype=torch.float64),
        "steps": torch.tensor(evaluated_steps(context), device="cpu"),
        **averages(_by_noise(options, losses, best)),
    }
    quantities = _quantities(options, best, float(variances.mean()))
    clean = quantities["clean-best-loss"]
    warn_above_constant(context, clean.value, clean.null, "training without noise")
    return penchant.Result(
        quantities,
        arrays,
        conventions={
            "noise": "amplitude times sin(2 pi k |x|), k in cycles per unit of length",
            "validation": "mean squared error on clean targets 0 and 1 of test samples; best over "
            "recorded steps",
            "null": "the same noise values, permuted among samples",
        },
    )


def _grid(options: TargetNoise) -> tuple[int, int, int]:
    """Dealt or not, amplitudes and frequencies: kinds of noise in their order."""
    amplitudes = len(options.noise_amplitudes)
    frequencies = len(options.noise_frequencies)
    return 2, amplitudes, frequencies


def _by_noise(options: TargetNoise, losses: dict[str, Tensor], best: Tensor) -> dict[str, Tensor]:
    """What is averaged over trainings, which come first; the first kind is no noise."""
    means = {}
    grid = _grid(options)
    for name, values in losses.items():
        means[f"clean-{name}"] = values[0]
        waves, _ = values[1:].unflatten(0, grid)
        means[name] = waves.movedim(2, 0)  # (trainings, amplitudes, frequencies, steps)

    # of the best loss the null too: the same noise permuted among samples
    waves, dealt = best[1:].unflatten(0, grid)
    means["best-loss"] = waves.movedim(2, 0)
    means["shuffled-best-loss"] = dealt.movedim(2, 0)
    return means


def _kinds(options: TargetNoise) -> list[dict[str, Any]]:
    """No noise; every amplitude and frequency; the same permuted among samples."""
    without: dict[str, Any] = {"amplitude": 0.0, "frequency": 0.0, "shuffled": False}
    kinds = [without]
    for shuffled in (False, True):
        for amplitude in options.noise_amplitudes:
            for frequency in options.noise_frequencies:
                kind = {"amplitude": amplitude, "frequency": frequency, "shuffled": shuffled}
                kinds.append(kind)
    return kinds


def noisy_training(context: penchant.Context, item: dict[str, Any]) -> dict[str, Any]:
    """Losses over one training: on its noisy targets, and on clean targets of other samples."""
    options = context.options
    training = item["training"]
    clean = clean_samples(context, training)
    generator = context.generator("validation", training)
    held_out = two_classes(
        context.data.test, options.chosen_classes, options.test_samples, generator
    )

    # the wave, or its values permuted among samples
    noise = radial_wave(clean.inputs, item["frequency"])
    if item["shuffled"]:
        generator = context.generator("shuffle", training)
        order = torch.randperm(len(noise), generator=generator, device="cpu")
        noise = noise[order.to(noise.device)]
    noisy = Samples(clean.inputs, clean.labels + item["amplitude"] * noise)
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


def _quantities(
    options: TargetNoise, best: Tensor, variance: float
) -> dict[str, penchant.Quantity]:
    """Of best losses (kinds, trainings)."""
    frequencies, amplitudes = options.noise_frequencies, options.noise_amplitudes
    low = frequencies.index(min(frequencies))
    high = frequencies.index(max(frequencies))
    largest = amplitudes.index(max(amplitudes))

    # noise is compared at its largest, where it shows
    clean = best[0]
    noisy = best[1:].unflatten(0, _grid(options))
    waves, dealt = noisy[0, largest], noisy[1, largest]  # (frequencies, trainings)
    compared = {
        "low-minus-high": (waves[low] - waves[high], dealt[low] - dealt[high]),
        "excess-low": (waves[low] - clean, dealt[low] - clean),
        "excess-high": (waves[high] - clean, dealt[high] - clean),
    }
    quantities = {}
    # the same samples and networks, so that differences are taken training by training
    for name, (values, control) in compared.items():
        quantities[name] = against_control(values, control, paired=True)
    quantities["clean-best-loss"] = penchant.Quantity.of(clean, over="trainings", null=variance)
    return quantities
