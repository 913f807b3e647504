"""A table as a figure."""

from __future__ import annotations

from collections.abc import Sequence

import penchant
from matplotlib.figure import Figure


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
