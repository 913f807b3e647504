"""Atoms: values that many samples share, beside values that hardly any two samples share."""

import math

import torch
from torch import Tensor

from penchant_mine.shared.information.binning import binned_information

SHARE = 0.05  # of the samples with one value, from which it is an atom
SAMPLES_A_CELL = 5  # fewer, and the correction for counting does not hold
FEW_VALUES = 20  # different ones, of which a discrete column has no more


def largest_atom(values: Tensor) -> float:
    """The largest share of samples with one value, of columns that are otherwise continuous."""
    return max((_share(column) for column in values.T), default=0.0)


def _share(column: Tensor) -> float:
    counts = torch.unique(column, return_counts=True)[1]
    largest = int(counts.max())
    others = len(column) - largest
    # Of a discrete column other values are shared, too; a constant one has no others.
    continuous = others > 0 and len(counts) - 1 > others / 2
    share = largest / len(column)
    return share if continuous and share >= SHARE else 0.0


def information_of_atoms(x: Tensor, z: Tensor) -> tuple[float, float]:
    """Information of which columns of x and z are at their atoms, and its standard error.

    It is a part of the information of x and z. Discrete columns count with their values.
    """
    patterns = [_pattern(each) for each in (x, z)]
    if any(int(pattern.max()) == 0 for pattern in patterns):
        return 0.0, 0.0
    contributions, correction, joint = binned_information(*patterns)
    if joint > len(x) / SAMPLES_A_CELL:
        return 0.0, 0.0
    value = float(contributions.mean()) - correction
    return value, float(contributions.std()) / math.sqrt(len(x))


def _pattern(values: Tensor) -> Tensor:
    """A number (samples,) for every combination of atoms and discrete values."""
    marks = [torch.zeros(len(values), device=values.device, dtype=torch.int64)]
    for column in values.T:
        _, inverse, counts = torch.unique(column, return_inverse=True, return_counts=True)
        if len(counts) <= FEW_VALUES:
            marks.append(inverse)
        elif _share(column):
            marks.append((inverse == counts.argmax()).to(torch.int64))
    pattern: Tensor = torch.unique(torch.stack(marks, 1), dim=0, return_inverse=True)[1]
    return pattern
