"""The probe `peak-ablation`: which frequencies of a delta peak a network fits, for bounds on its parameters."""

from __future__ import annotations

import math
from typing import Any

import penchant
import torch
from penchant_numerics import fourier
from torch import Tensor

from penchant_spectral_bias.numerics.piecewise_linear import chain_of, lipschitz, on_segment
from penchant_spectral_bias.numerics.rank_correlation import mean_and_error
from penchant_spectral_bias.numerics.side_by_side import groups, recorded_steps
from penchant_spectral_bias.numerics.spectral_norms import lipschitz_bounds
from penchant_spectral_bias.probes.curves import check_regression, learners

SLOPES = ("lipschitz", "lipschitz-bound", "pieces")


def run(options: Any, context: Any) -> penchant.Result:
    """Train networks on the peak for every clip, each clip's draws in shards of their own."""
    check_regression(context, "peak-ablation")
    if not options.weight_clips:
        raise penchant.Error("weight_clips must name at least one bound (0 is none), found none")
    steps = recorded_steps(context.training.total_steps(options.points), options.every)
    shared = groups(options.draws, context.device)
    base = {"points": options.points, "embedding": options.embedding, "steps": steps}
    items = [
        {**base, "clip": clip, "draws": group} for clip in options.weight_clips for group in shared
    ]
    rows = list(context.map(trained_draws, items))
    parts = [
        rows[start : start + len(shared)] for start in range(0, len(rows), len(shared))
    ]  # a list of shards for every clip
    names = [name for name in rows[0] if name != "prediction"]
    found = {
        name: torch.stack(
            [
                torch.cat([torch.as_tensor(row[name], device="cpu") for row in part])
                for part in parts
            ]
        )
        for name in names
    }
    found["prediction"] = torch.stack(
        [torch.as_tensor(part[0]["prediction"], device="cpu") for part in parts]
    )
    return _result(options, steps, found)


def trained_draws(context: Any, item: dict[str, Any]) -> dict[str, Any]:
    """Spectra (draws, steps, frequencies), losses and slopes of networks trained under one clip."""
    shape = list(context.architecture.shape)
    samples = context.dataset(
        "peak", points=item["points"], size=shape, embedding=item["embedding"]
    ).train
    training = learners(
        context, item["draws"], [samples] * len(item["draws"]), limit=item["clip"] or None
    )
    values = []
    for step in item["steps"]:
        training.run(step)
        values.append(training.outputs(samples.inputs)[..., 0])
    predictions = torch.stack(values, dim=1)  # (draws, steps, points)
    loss = (predictions - samples.labels).double().square().mean(-1)
    slopes = _slopes(context, training, samples.inputs, predictions[:, -1])
    return {
        "spectrum": _two_sided(predictions),
        "loss": loss,
        "prediction": predictions[0],
        **slopes,
    }


def _two_sided(values: Tensor) -> Tensor:
    """|DFT_k| / N at k = 0..N/2: a peak of height 1 has 1 / N everywhere."""
    points = values.shape[-1]
    return torch.fft.rfft(values.double()).abs() / points


@torch.no_grad()
def _slopes(context: Any, training: Any, inputs: Tensor, final: Tensor) -> dict[str, Tensor]:
    """Slopes along the line at the end: exact for chains of linear layers and ReLUs, else between neighbouring points."""
    chains = [chain_of(network) for network in training.networks()]
    start, end = (
        inputs[0].flatten(),
        inputs[0].flatten() + (inputs[-1] - inputs[0]).flatten() * len(inputs) / (len(inputs) - 1),
    )
    if any(chain is None for chain in chains):
        context.conventions["lipschitz"] = (
            "largest difference of neighbouring points: a lower bound"
        )
        length = (end - start).double().norm()
        slope = final.double().diff(dim=1).abs().amax(1) * final.shape[1] / length
        return {"lipschitz": slope}
    context.conventions["lipschitz"] = "exact along the line, from the network's linear pieces"
    lines = [on_segment(chain, start, end) for chain in chains]
    bounds = [lipschitz_bounds([weight for weight, _ in chain])[0] for chain in chains]
    device = final.device
    return {
        "lipschitz": torch.stack([lipschitz(line) for line in lines]),
        "pieces": torch.tensor(
            [float(line.pieces()) for line in lines], device=device, dtype=torch.float64
        ),
        "lipschitz-bound": torch.tensor(bounds, device=device, dtype=torch.float64),
    }


def _result(options: Any, steps: list[int], found: dict[str, Tensor]) -> penchant.Result:
    frequencies = torch.tensor(fourier.cosine_frequencies((options.points,)), device="cpu")[:, 0]
    target = 1 / options.points
    reach = (found["spectrum"][:, :, -1] >= target / 2).double().mean(-1)  # (clips, draws)
    arrays: dict[str, Any] = {
        "weight-clips": torch.tensor(options.weight_clips, device="cpu", dtype=torch.float64),
        "steps": torch.tensor(steps, device="cpu"),
        "frequencies": frequencies,
        "prediction": found["prediction"],
    }
    slopes = [name for name in SLOPES if name in found]
    for name, values in (
        ("reach", reach),
        *((name, found[name]) for name in ("spectrum", "loss", *slopes)),
    ):
        arrays[name], arrays[f"{name}-stderr"] = mean_and_error(values.transpose(0, 1))
    conventions = {
        "spectrum": "|DFT| / N, two-sided: the peak has 1 / N",
        "weight clip": "every parameter clamped after every step; 0: not",
    }
    return penchant.Result(
        _quantities(options, reach, found["lipschitz"]), arrays, conventions=conventions
    )


def _quantities(options: Any, reach: Tensor, slopes: Tensor) -> dict[str, penchant.Quantity]:
    looseness = [clip or math.inf for clip in options.weight_clips]
    loosest, tightest = looseness.index(max(looseness)), looseness.index(min(looseness))
    draws = reach.shape[1]

    def quantity(values: Tensor, **more: Any) -> penchant.Quantity:
        mean, error = mean_and_error(values)
        return penchant.Quantity(
            float(mean),
            stderr=float(error) if draws > 1 else None,
            over="networks",
            count=draws,
            **more,
        )

    found = {"reach": quantity(reach[loosest]), "lipschitz": quantity(slopes[loosest])}
    if loosest != tightest:
        found["clip-gain"] = quantity(reach[loosest] - reach[tightest], null=0.0)
    return found
