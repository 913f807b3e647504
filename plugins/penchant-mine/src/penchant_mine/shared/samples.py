"""Samples side by side: points in the plane, or sheets of pictures.

A table as a figure.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE

A_ROW = 8  # pictures
FARTHEST = 2.0  # times the reach of the data that a panel shows
NOTABLE = 0.01  # share of points outside that is said


def samples(shown: Mapping[str, np.ndarray]) -> Figure:
    """One panel for each title: points (count, 2), or pictures (count, channels, height, width).

    Where points stray far, all panels show twice the reach of the first one's, the data, and say
    how many lie outside.
    """
    figure = Figure(figsize=(3.1 * len(shown), 3.5))
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    # One scale for all panels; a few stray points do not shrink the rest.
    reach = [float(np.quantile(np.abs(values), 0.999)) for values in shown.values()]
    limit = 1.15 * min(max(reach), FARTHEST * reach[0])
    for number, (axes, (title, values)) in enumerate(zip(panels, shown.items())):
        axes.set_title(title)
        if values.ndim == 4:
            axes.imshow(sheet(values), cmap="gray", vmin=0, vmax=1)
            axes.axis("off")
            continue
        second = values[:, 1] if values.shape[1] > 1 else np.zeros(len(values))
        axes.scatter(values[:, 0], second, s=2, color=BLUE, alpha=0.4, linewidths=0)
        axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal", xlabel="x 1")
        outside = float((np.abs(values).max(1) > limit).mean())
        if outside >= NOTABLE:
            where = {"transform": axes.transAxes, "ha": "right", "va": "bottom"}
            axes.text(0.98, 0.02, f"{outside:.0%} outside", **where)
        if not number:
            axes.set_ylabel("x 2")
    return figure


def sheet(pictures: np.ndarray) -> np.ndarray:
    """Pictures in [-1, 1] (count, channels, height, width) as one, eight per row."""
    # Pictures that do not fill a row are left out.
    columns = min(A_ROW, len(pictures))
    rows = len(pictures) // columns
    _, channels, height, width = pictures.shape
    shown = pictures[: rows * columns]
    grid = shown.reshape(rows, columns, channels, height, width)
    # Heights and widths stand beside their rows and columns.
    page = grid.transpose(0, 3, 1, 4, 2)
    page = page.reshape(rows * height, columns * width, channels)
    page = np.clip((page + 1) / 2, 0, 1)
    if channels == 3:
        return page
    return page[:, :, 0]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Figure:
    """Columns are as wide as what they hold."""
    # Columns are measured in letters.
    letters = []
    for column in zip(head, *rows):
        letters.append(4 + max(map(len, column)))
    total = sum(letters)
    figure = Figure(figsize=(0.085 * total + 0.4, 0.32 * len(rows) + 1.0))
    axes = figure.subplots()
    axes.axis("off")
    shares = [count / total for count in letters]
    table = axes.table(
        cellText=[list(row) for row in rows],
        colLabels=list(head),
        colWidths=shares,
        loc="center",
        cellLoc="left",
    )
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    table.scale(1, 1.3)
    return figure


def text(quantity: penchant.Quantity) -> str:
    """Value and error in few digits."""
    if quantity.missing:
        return "missing"
    if quantity.stderr is None:
        return f"{quantity.value:.3g}"
    return f"{quantity.value:.3g} ± {quantity.stderr:.2g}"
