"""What probes on curves share: the wave on its line or flower in the architecture's input, and the networks that learn it."""

from __future__ import annotations

from typing import Any

import penchant
import torch
from penchant_numerics import fourier
from torch.nn.modules.batchnorm import _BatchNorm

from penchant_spectral_bias.numerics.side_by_side import OneByOne, Stacked, side_by_side

ON_CURVE = ("frequencies", "amplitudes", "points", "petals", "embedding")


def curve_options(options: Any) -> dict[str, Any]:
    """The options that say which wave on which curve, as an item of a map holds them."""
    return {name: getattr(options, name) for name in ON_CURVE}


def wave(context: Any, draw: int, item: dict[str, Any], **more: Any) -> Any:
    """The data of one phase draw in the architecture's input shape."""
    name = "sinusoids" if item["petals"] is None else "flower"
    values = {key: item[key] for key in ON_CURVE if key != "petals" or item["petals"] is not None}
    return context.dataset(name, draw=draw, size=list(context.architecture.shape), **values, **more)


def check_regression(context: Any, name: str) -> None:
    """Waves are regressed: any other loss is refused before anything is trained."""
    if context.training.loss != "squared-error":
        raise penchant.Error(
            f"{name} regresses numbers and needs training.loss = 'squared-error', found {context.training.loss!r}"
        )


def learners(
    context: Any,
    draws: list[int],
    samples: list[Any],
    *,
    limit: float | None = None,
    outputs: int = 1,
) -> OneByOne | Stacked:
    """Network number `draw` for the samples of each draw, ready to be trained side by side."""
    networks = [context.network(draw, outputs=outputs) for draw in draws]
    note_batch_norm(context, networks[0])
    seeds = [context.generator("training", draw).initial_seed() for draw in draws]
    return side_by_side(networks, samples, context.training, seeds=seeds, limit=limit)


def note_batch_norm(context: Any, network: Any) -> None:
    """Where there is batch normalisation, results say which statistics it used."""
    if any(isinstance(module, _BatchNorm) for module in network.modules()):
        context.conventions["batch-norm"] = (
            "batch statistics in training, running statistics when looked at"
        )


def spectra(predictions: torch.Tensor, frequencies: Any) -> torch.Tensor:
    """Amplitudes (..., frequencies) of functions (..., points) sampled on the grid, in one transform."""
    wanted = torch.tensor(list(frequencies), device=predictions.device)[:, None]
    return fourier.amplitudes(predictions.to(torch.float64), wanted)


def target_amplitudes(options: Any) -> torch.Tensor:
    """A_k of the target, one a frequency."""
    values = options.amplitudes or (1.0,) * len(options.frequencies)
    return torch.tensor(values, device="cpu", dtype=torch.float64)
