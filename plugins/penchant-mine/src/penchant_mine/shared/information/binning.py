"""Mutual information of binned variables: cells of equal frequency in every column, counted."""

import torch
from torch import Tensor


def cells(values: Tensor, bins: int) -> Tensor:
    """The cell number (samples,) of every row.

    Columns with at most `bins` different values keep them.
    """
    numbers = torch.stack([_column(column, bins) for column in values.T], 1)
    inverse: Tensor = torch.unique(numbers, dim=0, return_inverse=True)[1]
    return inverse


def _column(column: Tensor, bins: int) -> Tensor:
    different: Tensor
    inverse: Tensor
    different, inverse = torch.unique(column, return_inverse=True)
    if len(different) <= bins:
        return inverse
    exact = column.to(torch.float64)
    positions = torch.linspace(0, 1, bins + 1, device=column.device, dtype=torch.float64)
    # Equal frequency: the same number of samples in every bin.
    edges = torch.quantile(exact, positions[1:-1])
    return torch.bucketize(exact.contiguous(), edges.contiguous())


def binned_information(x: Tensor, z: Tensor) -> tuple[Tensor, float, int]:
    """The plug-in information of cell numbers x and z.

    It is too large by about (joint cells - cells of x - cells of z + 1) / 2n (Miller, Madow).

    Args:
        x: Cells (samples,) of the first variable.
        z: Cells (samples,) of the second.

    Returns:
        Contributions (samples,), the correction of their mean, and the number of joint cells.
    """
    pairs = torch.stack([x, z], 1)
    joint, inverse, counts = torch.unique(pairs, dim=0, return_inverse=True, return_counts=True)
    in_x = torch.bincount(x).to(torch.float64)
    in_z = torch.bincount(z).to(torch.float64)
    # Counts that independent variables would have, but for a factor.
    independent = in_x[joint[:, 0]] * in_z[joint[:, 1]]
    together = counts.to(torch.float64) * len(x)
    ratio = torch.log(together / independent)
    # Cells in excess of what the variables have by themselves.
    excess = len(joint) - len(in_x) - len(in_z) + 1
    correction = excess / (2 * len(x))
    return ratio[inverse], correction, len(joint)
