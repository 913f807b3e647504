"""Directions in the space of parameters, as flat vectors.

Reference: Li, Xu, Taylor, Studer, Goldstein, Visualizing the loss landscape of neural nets,
NeurIPS 2018, section 4.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from penchant_numerics.jacobians import Layout
from torch import Tensor


def filter_normalised(
    parameters: Mapping[str, Tensor], count: int, *, generator: torch.Generator
) -> Tensor:
    """Random Gaussian directions whose filters have the norms of the network's filters.

    A filter is what makes one output: a row of a matrix, a kernel of a convolution. Parameters with
    one axis (biases, scales of a normalisation) stay where they are, as in the paper.

    Args:
        parameters: By name.
        count: How many directions.
        generator: On the CPU.

    Returns:
        Rows (count, parameters).

    >>> weights = {"w": torch.tensor([[3.0, 4.0], [0.0, 1.0]], device="cpu")}
    >>> rows = filter_normalised(weights, 1, generator=torch.Generator("cpu").manual_seed(0))
    >>> [round(float(row.norm()), 5) for row in rows.reshape(2, 2)]
    [5.0, 1.0]
    """
    layout = Layout(parameters)
    made = []
    for value in parameters.values():
        sampled = torch.randn(
            (count, *value.shape), generator=generator, device="cpu", dtype=torch.float64
        ).to(value)
        if value.dim() < 2:
            made.append(torch.zeros_like(sampled))
            continue
        own = value.flatten(1).norm(dim=1)
        lengths = sampled.flatten(2).norm(dim=2)
        factors = own / lengths
        ones = [1] * (value.dim() - 1)
        made.append(sampled * factors.reshape(count, -1, *ones))
    return layout.join(made, leading=1)
