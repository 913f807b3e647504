"""How much of a symmetric matrix lies in a subspace: |P A P| / |A|, and what chance would give.

For a random subspace of dimension k the mean square follows from Schur's lemma: symmetric matrices
without trace are an irreducible representation of dimension n = (D - 1) (D + 2) / 2.

A symmetric matrix over the input, drawn as a picture.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from penchant_numerics.inputs import Corr, distinct_mean, jackknifed
from torch import Tensor


def containment(groups: Sequence[Tensor], table: Tensor, rank: int) -> Corr:
    """|P A P| / |A| with P on the first `rank` coordinates, by the jackknife over groups.

    Args:
        groups: A of independent groups, each (D, D), in the basis whose first vectors P is on.
        table: <A_i, A_j> (groups, groups).
        rank: Dimension of the subspace.
    """
    # In this basis P A P is the first corner of A.
    corners = [group[:rank, :rank] for group in groups]
    inner = inner_products(corners)

    def statistic(chosen: list[int]) -> float:
        inside = distinct_mean(inner, chosen)
        whole = distinct_mean(table, chosen)
        # An unbiased squared norm of few networks may be negative.
        if whole > 0:
            return math.sqrt(max(0.0, inside) / whole)
        return math.nan

    return jackknifed(statistic, len(groups))


def inner_products(matrices: Sequence[Tensor]) -> Tensor:
    """<A_i, A_j> (matrices, matrices), in double precision on the CPU."""
    rows = []
    for first in matrices:
        rows.append([float((first * second).sum()) for second in matrices])
    return torch.tensor(rows, dtype=torch.float64, device="cpu")


def containment_null(trace: float, squared_norm: float, size: int, rank: int) -> float:
    """|P A P| / |A| for a random subspace of this dimension, the root of the mean square.

    Args:
        trace: Tr A.
        squared_norm: |A|^2.
        size: D of A (D, D).
        rank: Dimension of the subspace.
    """
    if squared_norm <= 0:
        return math.nan
    # The multiple of the identity in A, and what is left without trace, are met differently.
    uniform = trace**2 / size
    left = squared_norm - uniform
    dimension = (size - 1) * (size + 2) / 2
    traceless = rank * (rank + 1) / 2 - rank / size
    inside = uniform * rank / size
    inside += left * traceless / dimension
    return math.sqrt(max(0.0, inside) / squared_norm)


COVERED = 0.99  # share of the entries that the colours cover


def draw_matrix(axes: Axes, matrix: np.ndarray, label: str) -> None:
    """Entries in colours that are white at zero; few extreme ones do not set the scale."""
    # White is zero; few extreme entries do not set the scale.
    sizes = np.abs(matrix)
    limit = float(np.quantile(sizes, COVERED)) or float(sizes.max()) or 1.0
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
    axes.set(xlabel="input value", ylabel="input value")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, integer=True))
    axes.figure.colorbar(image, ax=axes, shrink=0.85, label=label)
