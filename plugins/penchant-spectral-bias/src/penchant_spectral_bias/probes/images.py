"""What probes on images share: samples of two classes, and trainings that are looked at on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penchant
import torch
from penchant_numerics.data import Samples
from penchant_numerics.trainer import Trainer
from torch import Tensor

from penchant_spectral_bias.probes.curves import note_batch_norm

CHUNK = 1024


def check_classes(context: Any, classes: tuple[int, ...]) -> None:
    """Two different classes that the dataset has."""
    found = context.data.classes
    if len(classes) != 2 or classes[0] == classes[1] or max(classes) >= found:
        raise penchant.Error(f"classes must be two of 0..{found - 1}, found {list(classes)}")


def two_classes(
    samples: Samples, classes: tuple[int, ...] | list[int], count: int | None, generator: Any
) -> Samples:
    """At most `count` samples of two classes in random order, with targets 0.0 and 1.0 instead of labels."""
    members = torch.nonzero(
        (samples.labels == classes[0]) | (samples.labels == classes[1])
    ).flatten()
    order = torch.randperm(len(members), generator=generator, device="cpu")[:count].to(
        members.device
    )
    chosen = samples.select(members[order])
    return Samples(chosen.inputs, (chosen.labels == classes[1]).to(chosen.inputs.dtype))


def followed(
    context: Any,
    network: Any,
    samples: Samples,
    steps: list[int],
    seed: int,
    look: Callable[[Any], None],
) -> None:
    """Train a network and look at it at every one of these steps."""
    note_batch_norm(context, network)
    trainer = Trainer(network, samples, context.training, seed=seed)
    for step in steps:
        trainer.run(until=step)
        look(network)


@torch.no_grad()
def first_outputs(network: Any, inputs: Tensor) -> Tensor:
    """First output at every input, (samples,), in chunks."""
    return torch.cat([network(part)[:, 0] for part in inputs.split(CHUNK)])


def squared_error(values: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error, in double precision."""
    return (values.double() - targets.double()).square().mean()
