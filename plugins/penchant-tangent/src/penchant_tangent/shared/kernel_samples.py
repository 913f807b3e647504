"""Samples on which a kernel is measured, and what its outputs should be there."""

from __future__ import annotations

from typing import NamedTuple

import penchant
import torch
from penchant_numerics.curvature import loss_gradients, numbers_of
from penchant_numerics.data import Samples, are_sequences
from penchant_numerics.training import outputs
from torch import Generator, Tensor, nn

from penchant_tangent.shared.label_alignment import targets_of

_CHUNK = 8  # sequences of a pass


def sampled(samples: Samples, count: int, generator: Generator) -> Samples:
    """`count` of the samples in random order; all of them where there are fewer."""
    labels = samples.labels
    chosen = sample_numbers(len(labels), count, generator)
    return samples.select(chosen.to(labels.device))


def sample_numbers(available: int, count: int, generator: Generator) -> Tensor:
    """The numbers of the samples that `sampled` takes, in its order."""
    order = torch.randperm(available, generator=generator, device="cpu")
    return order[:count]


def targets(samples: Samples, context: penchant.Context) -> Tensor:
    """What the outputs of the context's networks should be on samples, (n, C)."""
    return targets_of(
        samples.labels, outputs=context.architecture.outputs, classes=context.data.classes
    )


class Kernelled(NamedTuple):
    """What a kernel is of: a function of inputs (n, ...), and what its outputs should be (n, C)."""

    network: nn.Module
    inputs: Tensor
    targets: Tensor


def kernelled(network: nn.Module, samples: Samples, context: penchant.Context) -> Kernelled:
    """The network and its samples; of sequences the losses, as a function of their numbers."""
    if not are_sequences(samples.labels):
        return Kernelled(network, samples.inputs, targets(samples, context))
    losses, numbers = loss_gradients(network, samples), numbers_of(samples.inputs)
    return Kernelled(losses, numbers, outputs(losses, numbers, chunk=_CHUNK).double())


def refuse_one_label(samples: Samples) -> None:
    """Labels that are all the same have no direction that anything could align with."""
    labels = samples.labels
    if bool((labels == labels[:1]).all()):
        raise penchant.Error(
            f"the labels of {len(labels)} samples are all the same, expected at least two: there "
            "is nothing to align with"
        )


CENTRING = {
    "outputs": "features around each output's own mean over samples",
    "all": "features around one mean over samples and outputs",
    "none": "features as they are",
}


def kernel_conventions(centring: str, samples: int, labels: Tensor) -> dict[str, str]:
    """What makes kernels incomparable."""
    conventions = {
        "kernel": f"sum over parameters on {samples} samples, not divided by their number",
        "centring": CENTRING[centring],
        "labels": "one-hot, one vector of all samples and outputs; -1 and 1 with one output",
        "batch-norm": "running statistics",
    }
    if are_sequences(labels):
        conventions["outputs"] = (
            "of a sequence: its loss, the sum over positions that count, scaled so that the mean "
            "over sequences is the mean over positions; the kernel is that of loss gradients"
        )
        conventions["labels"] = "the losses of the sequences themselves"
    return conventions
