"""A map of values by frequency, zero frequency in the centre."""

from __future__ import annotations

import numpy as np
import penchant
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.inputs import layout


def frequency_map(
    result: penchant.Result,
    values: np.ndarray,
    *,
    label: str,
    limits: tuple[float | None, float | None] = (None, None),
) -> Figure:
    """Values by frequency; crosses mark the half that is filled in from its mirror image.

    Args:
        result: Its arrays `frequencies` and `grid` say where values belong.
        values: One per direction; light grey where they are not finite or were not requested.
        label: Name and unit of the values.
        limits: The ends of the colours.
    """
    cells, mirrored = _laid_out(result, values)
    height, width = cells.shape
    # One row of cells for signals, a square for images.
    figure = Figure(figsize=(5.4, 4.6) if height > 1 else (6.4, 2.2))
    axes = figure.subplots()
    axes.set_facecolor("#e6e6e6")
    image = axes.imshow(
        cells,
        extent=(*_ends(width), *_ends(height)),
        origin="lower",
        vmin=limits[0],
        vmax=limits[1],
        aspect="equal" if height > 1 else "auto",
    )
    _cross_out(axes, mirrored & np.isfinite(cells))
    axes.set_xlabel("horizontal frequency" if height > 1 else "frequency")
    axes.set_ylabel("vertical frequency" if height > 1 else "")
    if height == 1:
        axes.set_yticks([])
    figure.colorbar(image, ax=axes, label=label)
    return figure


def _ends(count: int) -> tuple[float, float]:
    """The outer edges of cells whose centres are whole frequencies."""
    below = count // 2
    above = count - below
    # Half a cell beyond the outermost centres.
    start = -below - 0.5
    return start, above - 0.5


def _cross_out(axes: Axes, cells: np.ndarray) -> None:
    if not cells.any():
        return
    # Few large cells take larger crosses than many small ones.
    height, width = cells.shape
    row, column = np.nonzero(cells)
    axes.scatter(
        column - width // 2,
        row - height // 2,
        marker="x",
        s=3 if cells.size > 400 else 14,
        linewidths=0.5,
        color="white",
    )


def _laid_out(result: penchant.Result, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The map of the input's grid; inputs of one dimension have one row."""
    numbers = torch.tensor(values, dtype=torch.float64, device="cpu")
    frequencies = torch.tensor(result.arrays["frequencies"], device="cpu")
    grid = tuple(result.arrays["grid"].tolist())
    cells, mirrored = layout(numbers, frequencies, grid)
    return cells.numpy(), mirrored.numpy()
