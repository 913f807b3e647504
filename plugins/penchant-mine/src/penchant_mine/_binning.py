"""Mutual information of binned variables: cells of equal frequency in every column, counted."""

from __future__ import annotations

import torch
from torch import Tensor


def cells(values: Tensor, bins: int) -> Tensor:
    """The cell number (samples,) of every row; columns with at most `bins` different values keep them."""
    numbers = torch.stack([_column(column, bins) for column in values.T], 1)
    return torch.unique(numbers, dim=0, return_inverse=True)[1]


def _column(column: Tensor, bins: int) -> Tensor:
    different, inverse = torch.unique(column, return_inverse=True)
    if len(different) <= bins:
        return inverse
    edges = torch.quantile(
        column.to(torch.float64),
        torch.linspace(0, 1, bins + 1, device=column.device, dtype=torch.float64)[1:-1],
    )
    return torch.bucketize(column.to(torch.float64), edges.contiguous())


def binned_information(x: Tensor, z: Tensor) -> tuple[Tensor, float, int]:
    """Contributions (samples,) of cell numbers x and z, the correction of their mean, and the number of joint cells.

    The plug-in value is too large by about (joint cells - cells of x - cells of z + 1) / 2n (Miller, Madow).
    """
    joint, inverse, counts = torch.unique(
        torch.stack([x, z], 1), dim=0, return_inverse=True, return_counts=True
    )
    in_x, in_z = torch.bincount(x).to(torch.float64), torch.bincount(z).to(torch.float64)
    ratio = torch.log(counts.to(torch.float64) * len(x) / (in_x[joint[:, 0]] * in_z[joint[:, 1]]))
    correction = (len(joint) - len(in_x) - len(in_z) + 1) / (2 * len(x))
    return ratio[inverse], correction, len(joint)
