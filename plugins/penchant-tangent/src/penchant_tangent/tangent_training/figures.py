"""Figures of the probe `tangent-training`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import (
    BLUE,
    GREEN,
    ORANGE,
    RED,
    VIOLET,
    captioned,
    legend_beside,
    palette,
)

STYLES = {"train": "-", "test": "--"}
EIGENVALUES = {"largest": RED, "mean": BLUE, "median": GREEN}


def draw(result: penchant.Result) -> dict[str, Figure]:
    """The spectrum, the alignment, and that of easy and difficult samples, along trainings."""
    figures = {"spectrum": _spectrum(result), "alignment": _alignment(result)}
    if "difficult-cka" in result.arrays:
        figures["difficult"] = _difficult(result)
    return figures


def _panels(result: penchant.Result, rows: int) -> tuple[Figure, np.ndarray]:
    """A column of panels for each share of random labels."""
    shares = result.options["noise_shares"]
    # room for legends on the right, and for the caption below
    width = 3.4 * len(shares) + 2.2
    height = 2.1 * rows + 0.6
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(rows, len(shares), squeeze=False, sharex=True, sharey="row")
    for share, panel in zip(shares, grid[0]):
        panel.set_title(f"{100 * share:g} % random labels", fontsize=9)
    for panel in grid[-1]:
        panel.set_xlabel("step")
    for panel in grid.flat:
        panel.set_xscale("symlog", linthresh=1)
    return figure, grid


def _by_share(
    result: penchant.Result, grid: np.ndarray
) -> Iterator[tuple[np.ndarray, dict[str, penchant.Table]]]:
    """The panels of every share of random labels, and the tables of that share."""
    for share, column in zip(result.options["noise_shares"], grid.T):
        yield column, {name: table.at(share=share) for name, table in result.tables.items()}


def _line(panel: Axes, table: penchant.Table, *, color: str, **style: Any) -> None:
    """A curve along steps, with its error as a band."""
    steps, values = table.axes["step"], table.values
    panel.plot(steps, values, color=color, **style)
    low, high = values - table.error, values + table.error
    panel.fill_between(steps, low, high, color=color, alpha=0.2, linewidth=0)


def _spectrum(result: penchant.Result) -> Figure:
    """Accuracies, eigenvalues, effective rank and trace ratios (figure 4.2)."""
    figure, grid = _panels(result, 4)
    for (accuracy, eigenvalues, rank, ratios), tables in _by_share(result, grid):
        for split, style in STYLES.items():
            how: dict[str, Any] = {"linestyle": style, "label": split}
            _line(accuracy, tables[f"{split}-accuracy"], color=BLUE, **how)
            _line(rank, tables[f"{split}-effective-rank"], color=VIOLET, **how)
            for name, colour in EIGENVALUES.items():
                how["label"] = f"{name}, {split}"
                _line(eigenvalues, tables[f"{split}-{name}-eigenvalue"], color=colour, **how)
            _lines(ratios, tables[f"{split}-trace-ratios"], "ratio", split)
        eigenvalues.set_yscale("log")

    # what is shown
    names = ("accuracy", "eigenvalue", "effective rank", "trace ratio")
    for name, row in zip(names, grid):
        row[0].set_ylabel(name)
        legend_beside(row[-1], fontsize=6)
    share = result.options["noise_shares"][0]
    change = result.quantities[f"effective-rank-change-{share:g}"]
    caption = (
        "Accuracy, eigenvalues, effective rank and trace ratios; effective rank, last "
        "evaluation minus "
        f"first, with {100 * share:g} % random labels: {change}."
    )
    return captioned(figure, caption, title="Spectrum of the tangent kernel during training")


def _lines(panel: Axes, table: penchant.Table, axis: str, split: str) -> None:
    """One curve for each coordinate of an axis, from dark to light."""
    coordinates = table.axes[axis]
    for each, colour in zip(coordinates, palette(len(coordinates), ordered=True)):
        label = f"T_{each}, {split}" if axis == "ratio" else str(each)
        _line(panel, table.at(**{axis: each}), color=colour, linestyle=STYLES[split], label=label)


def _alignment(result: penchant.Result) -> Figure:
    """Alignment of the whole kernel and of its layers (figure 4.3)."""
    figure, grid = _panels(result, 3)
    for column, tables in _by_share(result, grid):
        # the whole kernel on top, its layers below
        for split, colour in (("train", BLUE), ("test", ORANGE)):
            cka = tables[f"{split}-cka"]
            _line(column[0], cka, color=colour, linestyle=STYLES[split], label=split)
            _null(column[0], cka, color=colour, label=split)
        for panel, split in zip(column[1:], STYLES):
            _lines(panel, tables[f"{split}-layer-cka"], "layer", split)

    # what is shown
    labels = ("CKA", "CKA of layers (train)", "CKA of layers (test)")
    for label, panel in zip(labels, grid[:, 0]):
        panel.set_ylabel(label)
    legend_beside(grid[0, -1], fontsize=6)
    legend_beside(grid[1, -1], fontsize=6, title="layer", title_fontsize=6)
    share = result.options["noise_shares"][0]
    change = result.quantities[f"cka-change-{share:g}"]
    caption = (
        "Alignment of the kernel with the labels; dotted: labels in random order. Layers from dark "
        f"(input) to light (output). Change with {100 * share:g} % random labels: {change}."
    )
    return captioned(figure, caption, title="Alignment with the labels during training")


def _null(panel: Axes, table: penchant.Table, *, color: str, label: str) -> None:
    """The same for labels in random order."""
    panel.plot(
        table.axes["step"],
        np.asarray(table.null),
        ":",
        color=color,
        alpha=0.7,
        label=f"{label}, null",
    )


def _difficult(result: penchant.Result) -> Figure:
    """Alignment on easy and on difficult samples, and accuracies (figure 4.4)."""
    figure, grid = _panels(result, 2)
    kinds = {"train": ("easy", BLUE), "difficult": ("difficult", RED)}
    for (cka, accuracy), tables in _by_share(result, grid):
        for split, (label, colour) in kinds.items():
            how: dict[str, Any] = {"label": label, "marker": "o", "markersize": 3}
            _line(cka, tables[f"{split}-cka"], color=colour, **how)
            _line(accuracy, tables[f"{split}-accuracy"], color=colour, **how)
            _null(cka, tables[f"{split}-cka"], color=colour, label=label)

    # what is shown
    grid[0, 0].set_ylabel("CKA")
    grid[1, 0].set_ylabel("accuracy on training labels")
    legend_beside(grid[0, -1], fontsize=7)
    share = result.options["noise_shares"][0]
    lead = result.quantities[f"easy-lead-{share:g}"]
    caption = (
        "Alignment and accuracy; dotted: labels in random order. Mean lead of easy samples since "
        f"the first evaluation: {lead}."
    )
    return captioned(figure, caption, title="Alignment on easy and difficult samples")
