"""What labels are of: samples, or positions of sequences.

The sample stays what batches are made of and what standard errors are over; the loss is a mean over
the terms of all samples together. Code asks the kind of its samples (`Samples.kind`, `kind_of`), so
that another kind of input is another class here.
"""

import torch
from penchant_numerics.data.sequences import IGNORED, contributions_to_mean
from torch import Tensor


class LabelKind:
    """One label per sample: a class, or numbers.

    >>> kind_of(torch.tensor([0, 2, 2], device="cpu")).commonest
    0.6666666666666666
    """

    units = "samples"  # what standard errors are over
    terms_described = "samples"  # what the loss is a mean over
    by_position = False

    def __init__(self, labels: Tensor) -> None:
        self.labels = labels

    @property
    def positions(self) -> int:
        """Labels of a sample."""
        return 1

    @property
    def counts(self) -> Tensor:
        """Terms of each sample (n,)."""
        return torch.ones(len(self.labels), device=self.labels.device, dtype=torch.int64)

    @property
    def known(self) -> Tensor:
        """All labels that count, (terms,) where they are classes."""
        if self.labels.is_floating_point():
            return self.labels
        return self.labels[self.labels != IGNORED]

    @property
    def commonest(self) -> float:
        """The accuracy of a constant answer: the share of the most frequent class."""
        known = self.known
        return float(known.bincount().max()) / len(known)

    def contributions(self, values: Tensor) -> Tensor:
        """What each sample contributes to the mean over terms, from values whose mean it is."""
        return values


class PositionLabels(LabelKind):
    """A class at every position of a sequence, -100 where there is none.

    >>> kind = kind_of(torch.tensor([[3, -100], [0, 1]], device="cpu"))
    >>> kind.units, kind.counts.tolist(), kind.known.tolist()
    ('sequences', [1, 2], [3, 0, 1])
    """

    units = "sequences"
    terms_described = f"positions whose label is not {IGNORED}, of all sequences together"
    by_position = True

    @property
    def positions(self) -> int:
        """Labels of a sample, those that count or not."""
        return self.labels.shape[1]

    @property
    def counts(self) -> Tensor:
        """Positions of each sequence that count."""
        return (self.labels != IGNORED).sum(1)

    def contributions(self, values: Tensor) -> Tensor:
        """What each sequence contributes; one weighs as many positions as it has."""
        counts = self.counts
        sums = values * counts.sum() / len(self.labels)
        return contributions_to_mean(sums, counts)


def kind_of(labels: Tensor | None) -> LabelKind:
    """The kind of labels; samples without labels are plain samples.

    >>> type(kind_of(torch.tensor([[0, 1, -100]], device="cpu"))).__name__
    'PositionLabels'
    """
    if labels is None:
        return LabelKind(torch.empty(0, device="cpu"))
    if labels.dim() == 2 and not labels.is_floating_point():
        return PositionLabels(labels)
    return LabelKind(labels)
