"""The probe `frequency-learning`: the amplitude of the learnt function at each frequency of its target, over training."""

from __future__ import annotations

import math
from typing import Any

import penchant
import torch
from torch import Tensor

from penchant_spectral_bias.numerics.rank_correlation import (
    jackknife,
    mean_and_error,
    permutation_null,
    spearman,
)
from penchant_spectral_bias.numerics.side_by_side import groups, recorded_steps
from penchant_spectral_bias.numerics.spectral_norms import spectral_norms
from penchant_spectral_bias.probes.curves import (
    check_regression,
    curve_options,
    learners,
    spectra,
    target_amplitudes,
    wave,
)


def run(options: Any, context: Any) -> penchant.Result:
    """Train one network a phase draw, and the same on shuffled points as a null."""
    check_regression(context, "frequency-learning")
    steps = recorded_steps(context.training.total_steps(options.points), options.every)
    base = {**curve_options(options), "steps": steps}
    items = [
        {**base, "draws": group, "shuffled": False}
        for group in groups(options.draws, context.device)
    ]
    items += [
        {**base, "draws": group, "shuffled": True}
        for group in groups(options.shuffled_draws, context.device)
    ]
    rows = [
        {name: torch.as_tensor(value, device="cpu") for name, value in row.items()}
        for row in context.map(trained_draws, items)
    ]
    learnt = _joined([row for row, item in zip(rows, items) if not item["shuffled"]])
    shuffled = _joined([row for row, item in zip(rows, items) if item["shuffled"]])
    return _result(options, context, steps, learnt, shuffled)


def trained_draws(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Train the networks of some phase draws; amplitudes (draws, steps, frequencies) and what else is looked at on the way.

    With `shuffled`, values are dealt to the points of the curve at random, and amplitudes are those of the values in their
    old order: no frequency is then smoother than another, so none should be learnt first.
    """
    samples = [wave(context, draw, item).train for draw in item["draws"]]
    inputs, order = samples[0].inputs, torch.arange(item["points"], device=context.device)
    if item["shuffled"]:
        order = torch.randperm(
            item["points"], generator=context.generator("shuffle"), device="cpu"
        ).to(context.device)
        inputs = inputs[order]  # the value that was at place j is now learnt at place order[j]
        samples = [part._replace(inputs=inputs) for part in samples]
    training = learners(context, item["draws"], samples)
    predictions, norms = [], []
    for step in item["steps"]:
        training.run(step)
        predictions.append(training.outputs(inputs)[..., 0])
        norms.append(spectral_norms(training.weights(), like=predictions[-1]))
    context.conventions["layers of spectral-norms"] = ", ".join(training.weights())
    values = torch.stack(predictions, dim=1)  # (draws, steps, points)
    targets = torch.stack([part.labels for part in samples])
    loss = (values - targets[:, None]).double().square().mean(-1)
    return {
        "amplitude": spectra(values, item["frequencies"]),
        "loss": loss,
        "spectral-norms": torch.stack(norms, dim=1),
        "prediction": values[0],
        "target": targets[0],
    }


def _joined(rows: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    if not rows:
        return {}
    many = {
        name: torch.cat([row[name] for row in rows])
        for name in ("amplitude", "loss", "spectral-norms")
    }
    return {**many, "prediction": rows[0]["prediction"], "target": rows[0]["target"]}


def _result(
    options: Any,
    context: Any,
    steps: list[int],
    learnt: dict[str, Tensor],
    shuffled: dict[str, Tensor],
) -> penchant.Result:
    relative = learnt["amplitude"] / target_amplitudes(options)
    amplitude, amplitude_error = mean_and_error(relative)
    loss, loss_error = mean_and_error(learnt["loss"])
    norms, norms_error = mean_and_error(learnt["spectral-norms"])
    fit = first_fit(amplitude, torch.tensor(steps, device="cpu"), options.reach)
    arrays = {
        "frequencies": torch.tensor(options.frequencies, device="cpu"),
        "steps": torch.tensor(steps, device="cpu"),
        "amplitude": amplitude,
        "amplitude-stderr": amplitude_error,
        "prediction": learnt["prediction"],
        "target": learnt["target"],
        "spectral-norms": norms,
        "spectral-norms-stderr": norms_error,
        "loss": loss,
        "loss-stderr": loss_error,
        "first-fit": fit,
    }
    if shuffled:
        arrays["shuffled-amplitude"], arrays["shuffled-amplitude-stderr"] = mean_and_error(
            shuffled["amplitude"] / target_amplitudes(options)
        )
    quantities = _quantities(options, context, arrays, relative, learnt["loss"], shuffled)
    missing = [name for name, quantity in quantities.items() if not math.isfinite(quantity.value)]
    if quantities["reached"].value < len(options.frequencies):
        found = f"{quantities['reached'].value:g} of {len(options.frequencies)}"
        context.warn(
            f"{found} frequencies reached {options.reach:g} of their amplitude in {steps[-1]} steps"
        )
    conventions = {
        "amplitude": "2 |DFT_k| / N over the amplitude of the target",
        "area": "under the amplitude clipped at 1, over recorded steps",
        "loss": "mean squared error on the training points",
        "spectral-norms": "largest singular value; a convolution as its (out, in x window) matrix",
    }
    return penchant.Result(
        quantities, arrays, conventions=conventions, missing=("first-fit", *missing)
    )


def area(amplitude: Tensor) -> Tensor:
    """Mean of the amplitude over training, clipped at 1, (frequencies,): large where a frequency was learnt early."""
    clipped = amplitude.clamp(max=1.0)
    return ((clipped[1:] + clipped[:-1]) / 2).mean(0) if len(clipped) > 1 else clipped.mean(0)


def first_fit(amplitude: Tensor, steps: Tensor, reach: float) -> Tensor:
    """The first recorded step at which each frequency has this share of its amplitude; NaN where none has."""
    above = amplitude >= reach
    return torch.where(above.any(0), steps[above.int().argmax(0)].double(), math.nan)


def _quantities(
    options: Any,
    context: Any,
    arrays: dict[str, Tensor],
    relative: Tensor,
    losses: Tensor,
    shuffled: dict[str, Tensor],
) -> dict[str, penchant.Quantity]:
    frequencies, fit = arrays["frequencies"].double(), arrays["first-fit"]
    reached = fit.isfinite()
    found = {"reached": penchant.Quantity(float(reached.sum()), over="frequencies", count=len(fit))}
    found["order-correlation"] = _ordered(context, "order", frequencies, relative)
    if int(reached.sum()) > 2:
        found["first-fit-correlation"] = _fit_correlation(
            options, context, arrays, relative, reached
        )
    found["final-loss"] = _final_loss(losses)
    if shuffled:
        found["shuffled-correlation"] = _ordered(
            context, "shuffled", frequencies, shuffled["amplitude"] / target_amplitudes(options)
        )
    return found


def _ordered(context: Any, key: str, frequencies: Tensor, relative: Tensor) -> penchant.Quantity:
    def correlation(mean: Tensor) -> float:
        return spearman(-area(mean), frequencies)

    areas = -area(relative.mean(0))
    null = (
        permutation_null(areas, frequencies, generator=context.generator("permutations", key))
        if len(frequencies) > 2
        else (None, None)
    )
    error = jackknife(relative, correlation)
    return penchant.Quantity(
        correlation(relative.mean(0)),
        stderr=error,
        over="phase draws",
        count=len(relative),
        null=null[0],
        null_stderr=null[1],
    )


def _fit_correlation(
    options: Any, context: Any, arrays: dict[str, Tensor], relative: Tensor, reached: Tensor
) -> penchant.Quantity:
    frequencies, fit = arrays["frequencies"].double()[reached], arrays["first-fit"][reached]

    def correlation(mean: Tensor) -> float:
        other = first_fit(mean, arrays["steps"], options.reach)
        both = other.isfinite()
        return spearman(other[both], arrays["frequencies"].double()[both])

    null = permutation_null(fit, frequencies, generator=context.generator("permutations", "fit"))
    error = jackknife(relative, correlation)
    if error is not None and not math.isfinite(error):
        error = None  # without one of the draws too few frequencies are reached to rank them
    return penchant.Quantity(
        spearman(fit, frequencies),
        stderr=error,
        over="phase draws",
        count=len(relative),
        null=null[0],
        null_stderr=null[1],
    )


def _final_loss(losses: Tensor) -> penchant.Quantity:
    mean, error = mean_and_error(losses[:, -1])
    return penchant.Quantity(
        float(mean),
        stderr=float(error) if len(losses) > 1 else None,
        over="phase draws",
        count=len(losses),
    )
