"""Which samples the probes of this plugin measure on, and the loss that is meant."""

from __future__ import annotations

import penchant
import torch
from penchant_numerics.data import Samples


def first_samples(samples: Samples, count: int | None) -> Samples:
    """The first `count` samples; None: all. More than there are is refused."""
    there = len(samples.labels)
    if count is None:
        count = there
    if count > there:
        raise penchant.Error(f"samples must be at most {there}, found {count}")
    rows = torch.arange(count, device=samples.labels.device)
    return samples.select(rows)


def training_loss(context: penchant.Context) -> str:
    """The loss that the network was trained with."""
    assert context.training is not None
    loss = context.training.loss
    context.conventions["loss"] = f"{loss}, mean over samples, without weight decay"
    return loss
