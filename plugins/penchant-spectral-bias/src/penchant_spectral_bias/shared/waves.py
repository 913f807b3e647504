"""Waves on a line or a flower in the architecture's input, and the networks that learn them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import penchant
import torch
from penchant_numerics.data import Data, Samples
from penchant_numerics.inputs import fourier
from penchant_numerics.training import OneByOne, Stacked, stack_trainings
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from penchant_spectral_bias.shared.one_output import network_of_one_output


def wave(context: penchant.Context, training: int, petals: int | None) -> Data:
    """The wave with the phases of one training, on a line (no petals at all) or on a flower."""
    options = context.options
    settings: dict[str, Any] = {"frequencies": options.frequencies, "draw": training}
    # the dataset knows what no amplitudes are
    if options.amplitudes is not None:
        settings["amplitudes"] = options.amplitudes
    if petals is None:
        return on_curve(context, "sinusoids", **settings)
    return on_curve(context, "flower", petals=petals, **settings)


def on_curve(
    context: penchant.Context, name: str, shape: Sequence[int] | None = None, **settings: Any
) -> Data:
    """Samples of a curve: in the architecture's input, or in an input of another shape."""
    options = context.options
    return context.dataset(
        name,
        train=options.samples,
        input_shape=list(context.architecture.shape if shape is None else shape),
        embedding=options.embedding,
        **settings,
    )


def learners(
    context: penchant.Context,
    trainings: Sequence[int],
    samples: Sequence[Samples],
    *,
    limit: float | None = None,
) -> OneByOne | Stacked:
    """Network number `training` for the samples of each training, to be trained side by side."""
    networks, seeds = [], []
    for training in trainings:
        networks.append(network_of_one_output(context, training))
        generator = context.generator("training", training)
        seeds.append(generator.initial_seed())
    note_batch_norm(context, networks[0])
    assert context.training is not None  # the probe needs one
    return stack_trainings(networks, samples, context.training, seeds=seeds, limit=limit)


def note_batch_norm(context: penchant.Context, network: nn.Module) -> None:
    """Where there is batch normalisation, results say which statistics it used."""
    if any(isinstance(module, _BatchNorm) for module in network.modules()):
        context.conventions["batch-norm"] = (
            "batch statistics in training, running statistics when evaluated"
        )


def spectra(functions: Tensor, frequencies: Sequence[int]) -> Tensor:
    """Amplitudes (..., frequencies) of functions (..., samples) on the grid, in one transform."""
    rows = torch.tensor(list(frequencies), device=functions.device)
    # a frequency on a grid of one axis is one number
    column = rows[:, None]
    return fourier.amplitudes(functions.to(torch.float64), column)


def target_amplitudes(options: Any) -> Tensor:
    """A_k of the target, one a frequency."""
    values = options.amplitudes
    if values is None:
        values = (1.0,) * len(options.frequencies)
    return torch.tensor(values, device="cpu", dtype=torch.float64)


def target_variance(options: Any) -> float:
    """The variance of the target, the loss of the best constant: frequencies are orthogonal."""
    amplitudes = target_amplitudes(options)
    return float(amplitudes.square().sum() / 2)
