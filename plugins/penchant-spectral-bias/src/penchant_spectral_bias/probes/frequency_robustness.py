"""The probe `frequency-robustness`: the spectrum of a trained network under random changes of its parameters."""

from __future__ import annotations

import math
from typing import Any

import penchant
import torch
from penchant_numerics import fourier
from torch import Tensor

from penchant_spectral_bias.numerics.perturbations import perturbed_outputs
from penchant_spectral_bias.numerics.rank_correlation import (
    jackknife,
    mean_and_error,
    permutation_null,
    spearman,
)
from penchant_spectral_bias.numerics.side_by_side import groups
from penchant_spectral_bias.probes.curves import (
    check_regression,
    curve_options,
    learners,
    spectra,
    target_amplitudes,
    wave,
)


def run(options: Any, context: Any) -> penchant.Result:
    """Train one network a phase draw and perturb each."""
    check_regression(context, "frequency-robustness")
    base = {
        **curve_options(options),
        "deltas": options.deltas,
        "perturbations": options.perturbations,
    }
    items = [{**base, "draws": group} for group in groups(options.draws, context.device)]
    rows = list(context.map(perturbed_draws, items))
    found = {
        name: torch.cat([torch.as_tensor(row[name], device="cpu") for row in rows])
        for name in rows[0]
    }
    arrays: dict[str, Any] = {
        "frequencies": torch.tensor(options.frequencies, device="cpu"),
        "perturbation": torch.tensor(options.deltas, device="cpu", dtype=torch.float64),
    }
    for name in ("relative-amplitude", "single-amplitude", "noise-floor"):
        arrays[name], arrays[f"{name}-stderr"] = mean_and_error(found[name])
    arrays["amplitude"], arrays["amplitude-stderr"] = mean_and_error(
        found["amplitude"] / target_amplitudes(options)
    )
    _warn_where_not_learnt(context, options, arrays["amplitude"])
    conventions = {
        "relative-amplitude": "|DFT| of the mean perturbed function over |DFT| of the unperturbed one",
        "perturbation": "isotropic in all parameters together, of the given length",
    }
    return penchant.Result(_quantities(options, context, found), arrays, conventions=conventions)


def perturbed_draws(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Relative amplitudes (draws, deltas, frequencies) of the networks of some phase draws."""
    samples = [wave(context, draw, item).train for draw in item["draws"]]
    training = learners(context, item["draws"], samples)
    training.run(training.total)
    inputs = samples[0].inputs
    outputs = training.outputs(inputs)[..., 0]
    unperturbed = spectra(outputs, item["frequencies"])  # (draws, frequencies)
    rows = [
        _perturbed(context, network, inputs, item, draw) / unperturbed[number]
        for number, (draw, network) in enumerate(zip(item["draws"], training.networks()))
    ]
    targets = torch.stack([part.labels for part in samples])
    together = torch.stack(rows)  # (draws, 3, deltas, frequencies)
    names = ("relative-amplitude", "single-amplitude", "noise-floor")
    parts = {name: together[:, number] for number, name in enumerate(names)}
    return {
        **parts,
        "amplitude": unperturbed,
        "loss": (outputs - targets).double().square().mean(-1),
    }


def _perturbed(
    context: Any, network: Any, inputs: Tensor, item: dict[str, Any], draw: int
) -> Tensor:
    """Amplitudes (3, deltas, frequencies): of the mean function, the mean of single ones, and what chance leaves of the mean."""

    def directions(index: int) -> Any:
        return context.generator("perturbation", draw, index)

    functions = perturbed_outputs(
        network, inputs, item["deltas"], directions, item["perturbations"]
    )  # (P, deltas, points)
    single = spectra(functions, item["frequencies"])
    mean = spectra(functions.double().mean(0), item["frequencies"])
    return torch.stack([mean, single.mean(0), _chance(functions, item["frequencies"])])


def _chance(functions: Tensor, frequencies: list[int]) -> Tensor:
    """Root mean square amplitude of the error of the mean function, (deltas, frequencies)."""
    deviations = functions.double() - functions.double().mean(0)
    wanted = torch.tensor(frequencies, device=functions.device)[:, None]
    count = len(functions)
    return (fourier.amplitudes(deviations, wanted).square().sum(0) / (count * (count - 1))).sqrt()


def _warn_where_not_learnt(context: Any, options: Any, amplitude: Tensor) -> None:
    low = [str(k) for k, value in zip(options.frequencies, amplitude.tolist()) if value < 0.8]
    if low:
        context.warn(
            f"before any perturbation, frequencies {', '.join(low)} have less than 0.8 of their amplitude: train longer"
        )


def _quantities(
    options: Any, context: Any, found: dict[str, Tensor]
) -> dict[str, penchant.Quantity]:
    relative, draws = found["relative-amplitude"], len(found["loss"])
    frequencies = torch.tensor(options.frequencies, device="cpu", dtype=torch.float64)
    lowest, highest = int(frequencies.argmin()), int(frequencies.argmax())
    middle = len(options.deltas) // 2
    gap, error = mean_and_error(relative[:, middle, lowest] - relative[:, middle, highest])
    over = {"over": "phase draws", "count": draws}
    known = draws > 1
    quantities = {
        "robustness-gap": penchant.Quantity(
            float(gap), stderr=float(error) if known else None, null=0.0, **over
        )
    }
    loss, loss_error = mean_and_error(found["loss"])
    quantities["final-loss"] = penchant.Quantity(
        float(loss), stderr=float(loss_error) if known else None, **over
    )

    def correlation(mean: Tensor) -> float:
        return spearman(-mean.mean(0), frequencies)

    value = correlation(relative.mean(0))
    if len(frequencies) > 2 and math.isfinite(value):
        null = permutation_null(
            -relative.mean((0, 1)), frequencies, generator=context.generator("permutations")
        )
        quantities["order-correlation"] = penchant.Quantity(
            value,
            stderr=jackknife(relative, correlation),
            null=null[0],
            null_stderr=null[1],
            **over,
        )
    return quantities
