"""How many independent answers the positions of sequences are worth."""

from __future__ import annotations

import torch
from penchant_numerics.data import Samples, contributions_to_mean, positions_counted
from penchant_numerics.training import predictions
from torch import Tensor, nn

_CHUNK = 64  # sequences of a pass


@torch.no_grad()
def right_positions(network: nn.Module, samples: Samples) -> Tensor:
    """Positions of each sequence (n,) whose class is the label."""
    right = []
    for inputs, labels in zip(samples.inputs.split(_CHUNK), samples.labels.split(_CHUNK)):
        right.append((predictions(network(inputs)) == labels).sum(1))
    return torch.cat(right)


def independent_answers(network: nn.Module, samples: Samples) -> int:
    """Answers n for which a (1 - a) / n is the variance of the accuracy a over sequences.

    Positions of a sequence are not independent, so that they are worth fewer than there are. An
    accuracy of 0 or 1 does not show it: sequences are counted then.

    Args:
        network: A network with outputs (samples, positions, C), in evaluation mode.
        samples: Sequences with labels (n, positions).

    Returns:
        At least 1, and at most the positions that count.
    """
    counts = positions_counted(samples.labels)
    each = contributions_to_mean(right_positions(network, samples), counts)
    share = float(each.mean())
    variance = float(each.var()) / len(each) if len(each) > 1 else 0.0
    if variance <= 0:
        return len(each)
    return max(1, min(int(counts.sum()), round(share * (1 - share) / variance)))
