"""The probe `peak-ablation`: which frequencies of a delta peak a network fits, bound or not."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import penchant
import torch
from penchant_numerics.training import OneByOne, Stacked, groups
from torch import Tensor

from penchant_spectral_bias.declarations.peaks import PeakAblation
from penchant_spectral_bias.shared.band_spectra import learnt_share
from penchant_spectral_bias.shared.piecewise_linear import chain_of, lipschitz, on_segment
from penchant_spectral_bias.shared.rank_order import joined
from penchant_spectral_bias.shared.spectral_norms import lipschitz_bounds
from penchant_spectral_bias.shared.waves import (
    against_control,
    check_loss,
    evaluation_steps,
    in_steps,
    learners,
    on_curve,
    warn_above_constant,
)

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
    steps = evaluation_steps(context, options.samples)
    frequencies = range(options.samples // 2 + 1)
    axes = {
        "training": range(options.trainings),
        "clip": options.weight_clips,
        "step": steps,
        "frequency": frequencies,
    }
    by_training = {}
    for name in names:
        values = torch.stack([each[name] for each in by_clip], dim=1)
        by_training[name] = penchant.Table(
            values, dict(itertools.islice(axes.items(), values.ndim))
        )
    by_training["reach"] = _reach(by_training["learnt-share"].at(step=steps[-1]))

    # of every clip the first training's
    predictions = [torch.as_tensor(clip[0]["prediction"], device="cpu") for clip in clips]
    arrays = {
        "weight-clips": torch.tensor(options.weight_clips, device="cpu", dtype=torch.float64),
        "steps": torch.tensor(steps, device="cpu"),
        "frequencies": torch.tensor(frequencies, device="cpu"),
        "prediction": torch.stack(predictions),
        "target": shards[0]["target"],
    }
    _warn_where_not_learnt(context, by_training["loss"], arrays["target"])
    return penchant.Result(
        _quantities(by_training),
        arrays,
        tables={name: table.mean("training") for name, table in by_training.items()},
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


def _reach(share: penchant.Table) -> penchant.Table:
    """The share of frequencies of which enough is learnt."""
    return share.reduced(lambda values, axis: (values >= FITTED).mean(axis), "frequency")


def _loosest_and_tightest(clips: Sequence[Any]) -> tuple[float, float]:
    # without a clip nothing is bounded
    return max(clips, key=_looseness), min(clips, key=_looseness)


def _looseness(clip: float) -> float:
    return clip or math.inf


def _warn_where_not_learnt(context: penchant.Context, loss: penchant.Table, target: Any) -> None:
    loosest, _ = _loosest_and_tightest(loss.axes["clip"])
    final = loss.at(clip=loosest, step=loss.axes["step"][-1])
    peak = torch.as_tensor(target, device="cpu", dtype=torch.float64)
    warn_above_constant(context, float(final.values.mean()), float(peak.var(correction=0)))


def _quantities(by_training: dict[str, penchant.Table]) -> dict[str, penchant.Quantity]:
    share = by_training["learnt-share"]
    loosest, tightest = _loosest_and_tightest(share.axes["clip"])
    reach = by_training["reach"].at(clip=loosest)

    # the first evaluation is before the first step
    untrained = _reach(share.at(clip=loosest, step=share.axes["step"][0]))
    step = 1 / len(share.axes["frequency"])  # one frequency more or less
    quantities = {
        "reach": against_control(reach, untrained, paired=True, step=step),
        "lipschitz": by_training["lipschitz"].at(clip=loosest).mean("training").quantity(),
    }
    if loosest != tightest:
        gains = reach.minus(by_training["reach"].at(clip=tightest))
        quantities["clip-gain"] = in_steps(gains, step, null=0.0)
    return quantities
