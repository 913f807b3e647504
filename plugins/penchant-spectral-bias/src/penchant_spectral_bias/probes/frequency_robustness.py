"""The probe `frequency-robustness`: the spectrum of a trained network with moved parameters."""

from __future__ import annotations

from typing import Any

import penchant
import torch
from penchant_numerics.side_by_side import group_size
from torch import Generator, Tensor, nn

from penchant_spectral_bias.declarations.curves import FrequencyRobustness
from penchant_spectral_bias.numerics.perturbations import perturbed_outputs
from penchant_spectral_bias.probes.averages import averages, joined, missing, order
from penchant_spectral_bias.probes.regression import check_loss, warn_above_constant
from penchant_spectral_bias.probes.waves import (
    learners,
    spectra,
    target_amplitudes,
    target_variance,
    wave,
)

RELATIVE = ("relative-amplitude", "single-amplitude", "noise-floor")
LEARNT = 0.8  # of its amplitude: what a frequency should have before anything is moved


def run(options: FrequencyRobustness, context: penchant.Context) -> penchant.Result:
    """Train a network for every set of phases and perturb each."""
    check_loss(context, "squared-error")
    size = group_size(context.device)
    # networks that share a device share a shard
    shards = list(context.map(perturbed, networks=options.trainings, a_shard=size))
    rows = joined(shards, [*RELATIVE, "amplitude", "loss"])
    rows["amplitude"] /= target_amplitudes(options)
    losses = rows.pop("loss")
    # deltas and frequencies are the axes of what was measured
    arrays = {
        "frequencies": torch.tensor(options.frequencies, device="cpu"),
        "deltas": torch.tensor(options.deltas, device="cpu", dtype=torch.float64),
        **averages(rows),
    }
    _warn_where_not_learnt(options, context, rows["amplitude"].mean(0))
    quantities = _quantities(options, context, rows["relative-amplitude"])
    quantities["final-loss"] = penchant.Quantity.of(
        losses, over="trainings", null=target_variance(options)
    )
    final = quantities["final-loss"]
    warn_above_constant(context, final.value, final.null)
    return penchant.Result(
        quantities,
        arrays,
        conventions={
            "relative-amplitude": "|DFT| of the mean perturbed function over |DFT| of the "
            "unperturbed one",
            "perturbation": "isotropic in all parameters together, of the given length",
        },
        missing=missing(quantities),
    )


def perturbed(context: penchant.Context, trainings: range) -> dict[str, Any]:
    """Relative amplitudes (trainings, deltas, frequencies) of some networks."""
    options = context.options
    samples = []
    for number in trainings:
        data = wave(context, number, options.petals)
        samples.append(data.train)
    training = learners(context, trainings, samples)
    training.run(training.total)

    # what there is before anything is moved
    inputs = samples[0].inputs
    outputs = training.outputs(inputs)[..., 0]
    unperturbed = spectra(outputs, options.frequencies)  # (trainings, frequencies)

    # what is left of it after every move
    rows = []
    for number, network in enumerate(training.networks()):
        moved = _moved(context, network, inputs, trainings[number])
        rows.append(moved / unperturbed[number])
    together = torch.stack(rows)  # (trainings, 3, deltas, frequencies)
    found = {name: together[:, number] for number, name in enumerate(RELATIVE)}
    found["amplitude"] = unperturbed

    # how well each wave was learnt
    targets = torch.stack([part.labels for part in samples])
    residuals = (outputs - targets).double()
    found["loss"] = residuals.square().mean(-1)
    return found


def _moved(
    context: penchant.Context,
    network: nn.Module,
    inputs: Tensor,
    training: int,
) -> Tensor:
    """Amplitudes (3, deltas, frequencies): of the mean function, of single ones, by chance."""
    options = context.options

    def directions(index: int) -> Generator:
        return context.generator("perturbation", training, index)

    functions = perturbed_outputs(
        network, inputs, options.deltas, directions, options.perturbations
    )  # (perturbations, deltas, samples)
    functions = functions.double()
    mean = functions.mean(0)
    single = spectra(functions, options.frequencies).mean(0)
    chance = _chance(functions - mean, options.frequencies)
    return torch.stack([spectra(mean, options.frequencies), single, chance])


def _chance(deviations: Tensor, frequencies: tuple[int, ...]) -> Tensor:
    """Root mean square amplitude of the error of the mean function, (deltas, frequencies)."""
    amplitudes = spectra(deviations, frequencies)
    squares = amplitudes.square().sum(0)
    # the variance of a mean of so many
    count = len(deviations)
    pairs = count * (count - 1)
    variance = squares / pairs
    return variance.sqrt()


def _warn_where_not_learnt(
    options: FrequencyRobustness, context: penchant.Context, amplitude: Tensor
) -> None:
    low = []
    for frequency, value in zip(options.frequencies, amplitude.tolist()):
        if value < LEARNT:
            low.append(str(frequency))
    if low:
        context.warn(
            f"before any perturbation, frequencies {', '.join(low)} have less than {LEARNT:g} of "
            "their amplitude: train longer"
        )


def _quantities(
    options: FrequencyRobustness, context: penchant.Context, relative: Tensor
) -> dict[str, penchant.Quantity]:
    """Of relative amplitudes (trainings, deltas, frequencies)."""
    frequencies = torch.tensor(options.frequencies, device="cpu", dtype=torch.float64)
    lowest = int(frequencies.argmin())
    highest = int(frequencies.argmax())
    middle = relative[:, len(options.deltas) // 2]
    gaps = middle[:, lowest] - middle[:, highest]
    # large where a frequency suffers
    suffering = -relative.mean(1)
    return {
        "robustness-gap": penchant.Quantity.of(gaps, over="trainings", null=0.0),
        "rank-correlation": order(
            suffering,
            frequencies,
            generator=context.generator("permutations"),
        ),
    }
