"""Two classes of a dataset as numbers to regress, and trainings that are looked at on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.trainer import Trainer, outputs
from torch import Generator, Tensor, nn

from penchant_spectral_bias.probes.waves import note_batch_norm


def check_classes(context: penchant.Context, classes: Sequence[int]) -> None:
    """Two different classes that the dataset has."""
    found = context.data.classes
    if len(classes) != 2 or classes[0] == classes[1] or max(classes) >= found:
        raise penchant.Error(f"chosen_classes must be two of 0..{found - 1}, found {list(classes)}")


def two_classes(
    samples: Samples, classes: Sequence[int], count: int | None, generator: Generator
) -> Samples:
    """At most `count` samples of two classes in random order, with targets 0.0 and 1.0."""
    first, second = classes
    members = (samples.labels == first) | (samples.labels == second)
    indices = torch.nonzero(members).flatten()
    order = torch.randperm(len(indices), generator=generator, device="cpu")[:count]
    chosen = samples.select(indices[order.to(indices.device)])
    targets = (chosen.labels == second).to(chosen.inputs.dtype)
    return Samples(chosen.inputs, targets)


def followed(
    context: penchant.Context,
    training: int,
    samples: Samples,
    steps: Sequence[int],
    look: Callable[[nn.Module], None],
) -> None:
    """Train network number `training` and look at it at every one of these steps."""
    network = context.network(training, outputs=1)
    note_batch_norm(context, network)
    seed = context.generator("training", training).initial_seed()
    trainer = Trainer(network, samples, context.training, seed=seed)
    for step in steps:
        trainer.run(until=step)
        look(network)


def first_outputs(network: nn.Module, inputs: Tensor) -> Tensor:
    """First output at every input, (samples,)."""
    return outputs(network, inputs)[:, 0]


def squared_error(values: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error, in double precision."""
    return (values.double() - targets.double()).square().mean()
