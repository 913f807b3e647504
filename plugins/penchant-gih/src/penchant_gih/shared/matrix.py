"""A symmetric matrix over the input, drawn as a picture."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

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
