"""One position of every sequence, so that pairs are independent."""

from __future__ import annotations

import torch
from penchant_numerics.data import IGNORED, Samples
from torch import Generator, Tensor


def one_position(samples: Samples, generator: Generator) -> tuple[Samples, Tensor]:
    """A random position with a label of each sequence, and its label.

    Args:
        samples: Sequences with labels (samples, positions); those without a label are left out.
        generator: On the CPU.

    Returns:
        The sequences with one label each, and the positions (samples,).
    """
    labels = samples.labels
    counted = (labels != IGNORED).cpu()
    scores = torch.rand(labels.shape, generator=generator, device="cpu")
    positions = scores.masked_fill(~counted, -1).argmax(1).to(labels.device)
    chosen = counted.any(1).to(labels.device)
    own = labels.gather(1, positions[:, None])[:, 0]
    return Samples(samples.inputs[chosen], own[chosen]), positions[chosen]
