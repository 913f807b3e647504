"""Which samples the probes of this plugin measure on, and the loss that is meant."""

from __future__ import annotations

import penchant
import torch
from penchant_numerics.data import IGNORED, Samples, are_sequences, positions_counted


def first_samples(samples: Samples, count: int | None) -> Samples:
    """The first `count` samples; None: all. More than there are is refused."""
    there = len(samples.labels)
    if count is None:
        count = there
    if count > there:
        raise penchant.Error(f"samples must be at most {there}, found {count}")
    rows = torch.arange(count, device=samples.labels.device)
    first: Samples = samples.select(rows)
    if not int(positions_counted(first.labels).sum()):
        raise penchant.Error(
            f"the first {count} sequences have no label: all are {IGNORED}; expected at least one"
        )
    return first


def unit_of(samples: Samples) -> str:
    """What standard errors are over."""
    return "sequences" if are_sequences(samples.labels) else "samples"


def training_loss(context: penchant.Context) -> str:
    """The loss that the network was trained with; the labels decide where that is not known."""
    assert context.training is not None
    loss = context.training.loss
    # how a network of the user's was trained is not known, and cross-entropy is the default only
    own = context.network_kind != "fresh"
    if own and loss == "cross-entropy" and not context.data.classes:
        loss = "squared-error"
    terms = "samples"
    if are_sequences(context.data.train.labels):
        terms = f"positions whose label is not {IGNORED}, of all sequences together"
    context.conventions["loss"] = f"{loss}, mean over {terms}, without weight decay"
    return loss
