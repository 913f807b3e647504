"""The probe `target-noise`: what noise of low and of high frequency in the targets does to validation."""

from __future__ import annotations

import math
from typing import Any

import penchant
import torch
from penchant_numerics.data import Samples
from torch import Tensor

from penchant_spectral_bias.numerics.rank_correlation import mean_and_error
from penchant_spectral_bias.numerics.side_by_side import recorded_steps
from penchant_spectral_bias.probes.curves import check_regression
from penchant_spectral_bias.probes.images import (
    check_classes,
    first_outputs,
    followed,
    squared_error,
    two_classes,
)


def run(options: Any, context: Any) -> penchant.Result:
    """Train on every kind of noise and without any; each training is a shard."""
    check_regression(context, "target-noise")
    check_classes(context, options.classes)
    count = int(
        (
            two_classes(
                context.data.train,
                options.classes,
                options.samples,
                context.generator("samples", 0),
            )
        ).labels.numel()
    )
    steps = recorded_steps(context.training.total_steps(count), options.every)
    base = {
        "classes": options.classes,
        "samples": options.samples,
        "validation": options.validation,
        "steps": steps,
    }
    kinds = [(0.0, 0.0, False)]
    kinds += [
        (beta, k, mixed)
        for mixed in (False, True)
        for beta in options.amplitudes
        for k in options.frequencies
    ]
    items = [
        {**base, "amplitude": b, "frequency": k, "shuffled": m, "draw": draw}
        for b, k, m in kinds
        for draw in range(options.draws)
    ]
    rows = list(context.map(noisy_training, items))
    curves = {
        name: torch.stack([torch.as_tensor(row[name], device="cpu") for row in rows])
        for name in ("training", "validation")
    }
    curves = {
        name: values.reshape(len(kinds), options.draws, -1).double()
        for name, values in curves.items()
    }
    return _result(options, steps, curves)


def noisy_training(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Losses over one training: on its noisy targets, and on clean targets of other samples."""
    draw = item["draw"]
    clean = two_classes(
        context.data.train, item["classes"], item["samples"], context.generator("samples", draw)
    )
    held_out = two_classes(
        context.data.test,
        item["classes"],
        item["validation"],
        context.generator("validation", draw),
    )
    noise = radial_wave(clean.inputs, item["frequency"])
    if item["shuffled"]:
        noise = noise[
            torch.randperm(
                len(noise), generator=context.generator("shuffle", draw), device="cpu"
            ).to(noise.device)
        ]
    samples = Samples(clean.inputs, clean.labels + item["amplitude"] * noise)
    training, validation = [], []

    def look(network: Any) -> None:
        training.append(squared_error(first_outputs(network, samples.inputs), samples.labels))
        validation.append(squared_error(first_outputs(network, held_out.inputs), held_out.labels))

    seed = context.generator("training", draw).initial_seed()
    followed(context, context.network(draw, outputs=1), samples, item["steps"], seed, look)
    return {"training": torch.stack(training), "validation": torch.stack(validation)}


def radial_wave(inputs: Tensor, frequency: float) -> Tensor:
    """sin(2 pi k |x|), k in cycles per unit of length (the paper prints sin(k |x|), in which no frequency it uses is high)."""
    return torch.sin(2 * math.pi * frequency * inputs.flatten(1).double().norm(dim=1)).to(
        inputs.dtype
    )


def _result(options: Any, steps: list[int], curves: dict[str, Tensor]) -> penchant.Result:
    shape = (2, len(options.amplitudes), len(options.frequencies), options.draws)
    best = curves["validation"].amin(-1)  # (kinds, draws)
    noisy = best[1:].reshape(shape)
    arrays: dict[str, Any] = {
        "frequencies": torch.tensor(options.frequencies, device="cpu", dtype=torch.float64),
        "amplitudes": torch.tensor(options.amplitudes, device="cpu", dtype=torch.float64),
        "steps": torch.tensor(steps, device="cpu"),
    }
    for name, values in curves.items():
        together = (
            values[1:].reshape(*shape, -1)[0].movedim(2, 0)
        )  # (draws, amplitudes, frequencies, steps)
        arrays[name], arrays[f"{name}-stderr"] = mean_and_error(together)
        arrays[f"clean-{name}"], arrays[f"clean-{name}-stderr"] = mean_and_error(values[0])
    for name, values in (("best-validation", noisy[0]), ("shuffled-best-validation", noisy[1])):
        arrays[name], arrays[f"{name}-stderr"] = mean_and_error(values.movedim(2, 0))
    conventions = {
        "noise": "amplitude times sin(2 pi k |x|), k in cycles per unit of length",
        "validation": "mean squared error on clean targets 0 and 1 of test samples; best over recorded steps",
        "null": "the same noise values dealt to other samples",
    }
    return penchant.Result(_quantities(options, best, noisy), arrays, conventions=conventions)


def _quantities(options: Any, best: Tensor, noisy: Tensor) -> dict[str, penchant.Quantity]:
    low = options.frequencies.index(min(options.frequencies))
    high = options.frequencies.index(max(options.frequencies))
    largest = options.amplitudes.index(max(options.amplitudes))
    over = {"over": "networks", "count": options.draws}
    known = options.draws > 1

    def quantity(values: Tensor, null: Tensor | None = None) -> penchant.Quantity:
        mean, error = mean_and_error(values)
        chance = {}
        if null is not None:
            middle, spread = mean_and_error(null)
            chance = {"null": float(middle), "null_stderr": float(spread) if known else None}
        return penchant.Quantity(
            float(mean), stderr=float(error) if known else None, **over, **chance
        )

    wave, dealt = noisy[0, largest], noisy[1, largest]  # (frequencies, draws)
    return {
        "low-minus-high": quantity(wave[low] - wave[high], dealt[low] - dealt[high]),
        "excess-low": quantity(wave[low] - best[0], dealt[low] - best[0]),
        "excess-high": quantity(wave[high] - best[0], dealt[high] - best[0]),
        "clean-best": quantity(best[0]),
    }
