"""Losses over the positions of sequences.

Outputs are (samples, positions, C), labels (samples, positions).

A sample stays the sequence: it is what batches are made of and what standard errors are over. The
loss is a mean over all positions that count, those whose label is not -100, of all sequences
together, as in torch's cross-entropy and in reported perplexities; a long sequence weighs more than
a short one. A mean over sequences would weigh them alike; both agree where lengths are equal.

A mean over positions is a ratio R = sum_i a_i / sum_i m_i of sums over sequences i, with m_i
positions that count. Positions of a sequence are not independent, so its standard error takes
sequences as clusters: to first order sequence i contributes R + (a_i - R m_i) n / sum m.

Reference: Cochran, Sampling Techniques, 3rd edition, 1977, section 9A.
"""

from typing import TypeGuard

import torch
from penchant_numerics.refusal import Refusal
from torch import Tensor

IGNORED = -100  # the label that torch's cross-entropy leaves out


def are_sequences(labels: Tensor | None) -> TypeGuard[Tensor]:
    """Whether labels are classes of positions (samples, positions).

    >>> are_sequences(torch.tensor([[3, -100]], device="cpu"))
    True
    """
    if labels is None or labels.is_floating_point():
        return False
    return labels.dim() == 2


def positions_counted(labels: Tensor) -> Tensor:
    """How many positions of each sample count (samples,); a sample with one label is one.

    >>> positions_counted(torch.tensor([[3, -100], [0, 1]], device="cpu")).tolist()
    [1, 2]
    """
    if not are_sequences(labels):
        return torch.ones(len(labels), device=labels.device, dtype=torch.int64)
    return (labels != IGNORED).sum(1)


def next_labels(tokens: Tensor, labels: Tensor) -> Tensor | None:
    """Labels of the next position, where those given are the tokens themselves.

    Models of transformers are given their input as labels and shift it themselves; here a label
    belongs to the output at its own position. The last position has none then.

    Args:
        tokens: Inputs (samples, positions).
        labels: Labels (samples, positions).

    Returns:
        Labels that are shifted; None where labels are others than the tokens, and stay.

    >>> tokens = torch.tensor([[5, 7, 2]], device="cpu")
    >>> next_labels(tokens, torch.tensor([[5, 7, -100]], device="cpu")).tolist()
    [[7, -100, -100]]
    """
    if not are_sequences(labels) or tokens.shape != labels.shape or labels.shape[1] < 2:
        return None
    counted = labels != IGNORED
    if not bool((labels == tokens)[counted].all()):
        return None
    shifted = labels.roll(-1, 1)
    shifted[:, -1] = IGNORED
    return shifted


def as_rows(outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs (rows, C) and their labels, where every position of a sequence is a row.

    Args:
        outputs: Outputs (samples, C), which stay as they are, or (samples, positions, C).
        labels: Labels (samples, ...), or (samples, positions, ...).

    Returns:
        Both with one first axis.

    >>> outputs, labels = torch.zeros(2, 3, 5, device="cpu"), torch.zeros(2, 3, device="cpu")
    >>> [tuple(each.shape) for each in as_rows(outputs, labels)]
    [(6, 5), (6,)]
    """
    if outputs.dim() == 2:
        return outputs, labels
    if labels.shape[:2] != outputs.shape[:2]:
        expected = " x ".join(map(str, outputs.shape[:2]))
        shape = " x ".join(map(str, labels.shape))
        raise Refusal(
            "outputs are (samples, positions, classes) and "
            f"need labels of {expected}, found {shape}"
        )
    return outputs.flatten(0, 1), labels.flatten(0, 1)


def contributions_to_mean(sums: Tensor, counts: Tensor) -> Tensor:
    """What each sequence contributes to a mean over positions, to first order.

    Args:
        sums: Sums a_i over the positions of each sequence (n,).
        counts: Positions m_i that count (n,).

    Returns:
        Contributions (n,): their mean is sum a / sum m, and their standard deviation over sqrt(n)
        its standard error over sequences.

    >>> sums = torch.tensor([2.0, 6.0], device="cpu")
    >>> contributions_to_mean(sums, torch.tensor([1, 3], device="cpu")).tolist()
    [2.0, 2.0]
    """
    sums = sums.double()
    counts = counts.to(sums)
    total = counts.sum()
    ratio = sums.sum() / total
    return ratio + (sums - ratio * counts) * len(sums) / total
