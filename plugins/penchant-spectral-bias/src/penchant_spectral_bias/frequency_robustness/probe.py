"""The probe `frequency-robustness`: the spectrum of a trained network with moved parameters."""

from typing import Any

import penchant
import torch
from penchant_numerics.training import OneByOne, Stacked, group_size
from torch import Generator, Tensor, nn

from penchant_spectral_bias.declarations.curves import FrequencyRobustness
from penchant_spectral_bias.frequency_robustness.own_robustness import robustness_of_own
from penchant_spectral_bias.frequency_robustness.perturbations import perturbed_outputs
from penchant_spectral_bias.shared.own_functions import refuse_own_options
from penchant_spectral_bias.shared.rank_order import correlations, joined, missing, smallest_step
from penchant_spectral_bias.shared.waves import (
    against_control,
    check_loss,
    in_steps,
    learners,
    spectra,
    target_amplitudes,
    target_variance,
    warn_above_constant,
    wave,
)

ROUNDING = 10  # times the rounding of its values: what a function's amplitude is above
RELATIVE = ("relative-amplitude", "single-amplitude", "noise-floor")
LEARNT = 0.8  # of its amplitude: what a frequency should have before anything is moved


def run(options: FrequencyRobustness, context: penchant.Context) -> penchant.Result:
    """Train a network for every set of phases and perturb each; or perturb the user's own."""
    if context.network_kind != "fresh":
        return robustness_of_own(options, context)
    refuse_own_options(options)
    check_loss(context, "squared-error")
    size = group_size(context.device)
    # networks that share a device share a shard
    shards = list(context.map(perturbed, networks=options.trainings, shard_size=size))
    rows = joined(shards, [*RELATIVE, "amplitude", "loss", "untrained", "rounding"])
    _check_amplitudes(options, rows["amplitude"], rows.pop("rounding"))
    rows["amplitude"] /= target_amplitudes(options)
    losses = rows.pop("loss")
    untrained = rows.pop("untrained")
    axes = {
        "training": range(options.trainings),
        "delta": options.deltas,
        "frequency": options.frequencies,
    }
    tables = {name: penchant.Table(rows[name], axes).mean("training") for name in RELATIVE}
    amplitude = penchant.Table(
        rows["amplitude"], {axis: axes[axis] for axis in ("training", "frequency")}
    )
    tables["amplitude"] = amplitude.mean("training")
    arrays = {
        "frequencies": torch.tensor(options.frequencies, device="cpu"),
        "deltas": torch.tensor(options.deltas, device="cpu", dtype=torch.float64),
    }
    _warn_where_not_learnt(options, context, rows["amplitude"].mean(0))
    quantities = _quantities(options, rows["relative-amplitude"], untrained)
    quantities["final-loss"] = penchant.Quantity.of(
        losses, over="trainings", null=target_variance(options)
    )
    final = quantities["final-loss"]
    warn_above_constant(context, final.value, final.null)
    return penchant.Result(
        quantities,
        arrays,
        tables=tables,
        conventions={
            "relative-amplitude": "|DFT| of the mean perturbed function over |DFT| of the "
            "unperturbed one",
            "perturbation": "isotropic in all parameters together, of the given length",
            "null of rank-correlation": "the same networks before training, moved in the same "
            "directions",
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
    inputs = samples[0].inputs
    training = learners(context, trainings, samples)
    _, untrained = _relative(context, training, inputs, trainings)
    training.run(training.total)

    # what is left after every move, of what there was before
    amplitude, relative = _relative(context, training, inputs, trainings)
    numbers = {name: relative[:, number] for number, name in enumerate(RELATIVE)}
    numbers["amplitude"] = amplitude
    numbers["untrained"] = untrained[:, 0]

    # how well each wave was learnt
    targets = torch.stack([each.labels for each in samples])
    outputs = training.outputs(inputs)[..., 0]
    numbers["rounding"] = outputs.abs().amax(-1) * torch.finfo(outputs.dtype).eps
    residuals = (outputs - targets).double()
    numbers["loss"] = residuals.square().mean(-1)
    return numbers


def _relative(
    context: penchant.Context, training: OneByOne | Stacked, inputs: Tensor, trainings: range
) -> tuple[Tensor, Tensor]:
    """Amplitudes (trainings, frequencies), and what moved networks have of them.

    The latter are (trainings, 3, deltas, frequencies), as `_moved` has them.
    """
    outputs = training.outputs(inputs)[..., 0]
    unperturbed = spectra(outputs, context.options.frequencies)
    rows = []
    for number, network in enumerate(training.networks()):
        moved = _moved(context, network, inputs, trainings[number])
        rows.append(moved / unperturbed[number])
    return unperturbed, torch.stack(rows)


def _moved(context: penchant.Context, network: nn.Module, inputs: Tensor, training: int) -> Tensor:
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
    # the variance of their mean
    count = len(deviations)
    pairs = count * (count - 1)
    variance = squares / pairs
    return variance.sqrt()


def _check_amplitudes(options: FrequencyRobustness, amplitude: Tensor, rounding: Tensor) -> None:
    """Refuse functions (trainings, frequencies) that have nothing to be compared with."""
    for frequency, sizes in zip(options.frequencies, amplitude.T):
        if bool((sizes <= ROUNDING * rounding).any()):
            raise penchant.Error(
                f"a trained network has an amplitude of {float(sizes.min()):.2g} at frequency "
                f"{frequency}, expected more than {ROUNDING} times the rounding of its values "
                f"({float(rounding.max()):.2g}), so that perturbed networks can be compared with "
                "it; train longer, or use dtype = 'float64'"
            )


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
    options: FrequencyRobustness, relative: Tensor, untrained: Tensor
) -> dict[str, penchant.Quantity]:
    """Of relative amplitudes (trainings, deltas, frequencies), trained and not."""
    frequencies = torch.tensor(options.frequencies, device="cpu", dtype=torch.float64)
    lowest = int(frequencies.argmin())
    highest = int(frequencies.argmax())
    middle = relative[:, len(options.deltas) // 2]
    gaps = middle[:, lowest] - middle[:, highest]
    return {
        "robustness-gap": penchant.Quantity.of(gaps, over="trainings", null=0.0),
        "rank-correlation": _order(relative, untrained, frequencies),
    }


def _order(relative: Tensor, untrained: Tensor, frequencies: Tensor) -> penchant.Quantity:
    """Do higher frequencies suffer more, and more so than before training?"""
    # large where a frequency suffers
    replicates = correlations(-relative.mean(1), frequencies)
    if replicates is None:
        return penchant.Quantity(float("nan"))
    step = smallest_step(len(frequencies))
    control = correlations(-untrained.mean(1), frequencies)
    if control is None:
        return in_steps(replicates, step)
    return against_control(replicates, control, paired=True, step=step)
