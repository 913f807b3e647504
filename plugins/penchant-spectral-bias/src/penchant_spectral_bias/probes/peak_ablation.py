"""The probe `peak-ablation`: which frequencies of a delta peak a network fits, bound or not."""

from __future__ import annotations

import math
from typing import Any

import penchant
import torch
from penchant_numerics.stacked import OneByOne, Stacked, groups
from torch import Tensor

from penchant_spectral_bias.declarations.peaks import PeakAblation
from penchant_spectral_bias.numerics.learnt_share import learnt_share
from penchant_spectral_bias.numerics.piecewise_linear import chain_of, lipschitz, on_segment
from penchant_spectral_bias.numerics.spectral_norms import lipschitz_bounds
from penchant_spectral_bias.shared.averages import averages, joined, stacked
from penchant_spectral_bias.shared.controls import against_control, in_steps
from penchant_spectral_bias.shared.evaluation_steps import evaluation_steps
from penchant_spectral_bias.shared.regression import check_loss, warn_above_constant
from penchant_spectral_bias.shared.waves import learners, on_curve

SLOPES = ("lipschitz", "lipschitz-bound", "pieces")
FITTED = 0.5  # of the peak's wave: what a frequency within reach has


def run(options: PeakAblation, context: penchant.Context) -> penchant.Result:
    """Train networks on the peak for every clip, each clip's in shards of their own."""
    check_loss(context, "squared-error")
    shares = groups(options.trainings, context.device)
    items = []
    for clip in options.weight_clips:
        items += [{"clip": clip, "trainings": share} for share in shares]
    shards = list(context.map(trained, items))

    # a list of shards for every clip
    starts = range(0, len(shards), len(shares))
    clips = [shards[start : start + len(shares)] for start in starts]
    # slopes are those that the first shard knows
    names = ["amplitude", "learnt-share", "loss", *(name for name in SLOPES if name in shards[0])]
    by_clip = [joined(clip, names) for clip in clips]
    rows = {}
    for name in names:
        rows[name] = torch.stack([each[name] for each in by_clip], dim=1)  # (trainings, clips, ...)
    rows["reach"] = _reach(rows["learnt-share"])

    # of every clip the first training's
    firsts = [clip[0] for clip in clips]
    predictions = stacked(firsts, ["prediction"])["prediction"]
    arrays = {
        "weight-clips": torch.tensor(options.weight_clips, device="cpu", dtype=torch.float64),
        "steps": torch.tensor(evaluation_steps(context, context.options.samples), device="cpu"),
        "frequencies": torch.arange(options.samples // 2 + 1, device="cpu"),
        "prediction": predictions,
        "target": shards[0]["target"],
        **averages(rows),
    }
    _warn_where_not_learnt(options, context, rows["loss"], arrays["target"])
    return penchant.Result(
        _quantities(options, rows),
        arrays,
        conventions={
            "amplitude": "|DFT| / N, two-sided: the peak has 1 / N",
            "reach": f"frequencies of which the function has {FITTED:g} of the peak's wave, "
            "Re(DFT_k conj t_k) / |t_k|^2, t the peak's: a wave of another phase does not count",
            "weight clip": "every parameter clamped after every step; 0: not",
        },
    )


def trained(context: penchant.Context, item: dict[str, Any]) -> dict[str, Any]:
    """Spectra (trainings, steps, frequencies), losses and slopes of networks under one clip."""
    samples = on_curve(context, "peak").train
    trainings = item["trainings"]
    limit = item["clip"] or None
    training = learners(context, trainings, [samples] * len(trainings), limit=limit)
    values = []
    for step in evaluation_steps(context, context.options.samples):
        training.run(step)
        outputs = training.outputs(samples.inputs)
        values.append(outputs[..., 0])
    functions = torch.stack(values, dim=1)  # (trainings, steps, samples)
    transform = torch.fft.rfft(functions.double())
    residuals = (functions - samples.labels).double()
    return {
        "amplitude": transform.abs() / functions.shape[-1],
        "learnt-share": learnt_share(functions, samples.labels, range(transform.shape[-1])),
        "loss": residuals.square().mean(-1),
        "prediction": functions[0],
        "target": samples.labels,
        **_slopes(context, training, samples.inputs, functions[:, -1]),
    }


@torch.no_grad()
def _slopes(
    context: penchant.Context, training: OneByOne | Stacked, inputs: Tensor, final: Tensor
) -> dict[str, Tensor]:
    """Slopes along the line at the end: exact for chains, else between neighbouring samples."""
    start, last = inputs[0].flatten(), inputs[-1].flatten()
    # the endpoint of the line is not among the samples
    whole = len(inputs) / (len(inputs) - 1)
    end = start + (last - start) * whole
    networks = training.networks()
    chains = [chain for network in networks if (chain := chain_of(network)) is not None]
    if len(chains) < len(networks):
        context.conventions["lipschitz"] = (
            "largest difference of neighbouring samples: a lower bound"
        )
        length = (end - start).double().norm()
        differences = final.double().diff(dim=1).abs()
        largest = differences.amax(1)
        return {"lipschitz": largest * final.shape[1] / length}

    # linear pieces are known, and with them every slope
    context.conventions["lipschitz"] = "exact along the line, from the network's linear pieces"
    slopes, pieces, bounds = [], [], []
    for chain in chains:
        function = on_segment(chain, start, end)
        slopes.append(lipschitz(function))
        pieces.append(float(function.pieces()))
        bound, _ = lipschitz_bounds([weight for weight, _ in chain])
        bounds.append(bound)
    return {
        "lipschitz": torch.stack(slopes),
        "pieces": torch.tensor(pieces, device="cpu", dtype=torch.float64),
        "lipschitz-bound": torch.tensor(bounds, device="cpu", dtype=torch.float64),
    }


def _reach(share: Tensor, evaluation: int = -1) -> Tensor:
    """Share of frequencies of which enough is learnt, at the end or before, (trainings, clips)."""
    fitted = share[:, :, evaluation] >= FITTED
    return fitted.double().mean(-1)


def _loosest_and_tightest(options: PeakAblation) -> tuple[int, int]:
    # without a clip nothing is bounded
    looseness = [clip or math.inf for clip in options.weight_clips]
    return looseness.index(max(looseness)), looseness.index(min(looseness))


def _warn_where_not_learnt(
    options: PeakAblation, context: penchant.Context, losses: Tensor, target: Any
) -> None:
    loosest, _ = _loosest_and_tightest(options)
    final = float(losses[:, loosest, -1].mean())
    peak = torch.as_tensor(target, device="cpu", dtype=torch.float64)
    warn_above_constant(context, final, float(peak.var(correction=0)))


def _quantities(options: PeakAblation, rows: dict[str, Tensor]) -> dict[str, penchant.Quantity]:
    loosest, tightest = _loosest_and_tightest(options)
    reach = rows["reach"][:, loosest]

    # the first evaluation is before the first step
    untrained = _reach(rows["learnt-share"], evaluation=0)[:, loosest]
    slopes = rows["lipschitz"][:, loosest]
    step = 1 / rows["learnt-share"].shape[-1]  # one frequency more or less
    quantities = {
        "reach": against_control(reach, untrained, paired=True, step=step),
        "lipschitz": penchant.Quantity.of(slopes, over="trainings"),
    }
    if loosest != tightest:
        gains = reach - rows["reach"][:, tightest]
        quantities["clip-gain"] = in_steps(gains, step, null=0.0)
    return quantities
