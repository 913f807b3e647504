"""Figures of the probe `tangent-training`."""

from __future__ import annotations

from typing import Any

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, GREEN, ORANGE, RED, VIOLET, captioned, palette

from penchant_tangent.shared.legends import legend_beside

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


def _line(
    panel: Axes,
    result: penchant.Result,
    name: str,
    position: int,
    *,
    color: str,
    column: int | None = None,
    **style: Any,
) -> None:
    """A curve of one share along steps, with its error as a band."""
    values = result.arrays[name][position]
    errors = result.arrays[f"{name}-stderr"][position]
    if column is not None:
        values, errors = values[:, column], errors[:, column]

    # the band is one standard error on either side
    steps = result.arrays["steps"]
    panel.plot(steps, values, color=color, **style)
    panel.fill_between(steps, values - errors, values + errors, color=color, alpha=0.2, linewidth=0)


def _spectrum(result: penchant.Result) -> Figure:
    """Accuracies, eigenvalues, effective rank and trace ratios (figure 4.2)."""
    figure, grid = _panels(result, 4)
    for position, column in enumerate(grid.T):
        for split, style in STYLES.items():
            accuracy, eigenvalues, rank, ratios = column
            how: dict[str, Any] = {"linestyle": style, "label": split}
            _line(accuracy, result, f"{split}-accuracy", position, color=BLUE, **how)
            _line(rank, result, f"{split}-effective-rank", position, color=VIOLET, **how)
            for name, colour in EIGENVALUES.items():
                how["label"] = f"{name}, {split}"
                _line(
                    eigenvalues, result, f"{split}-{name}-eigenvalue", position, color=colour, **how
                )
            _ratios(ratios, result, split, position, style)
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


def _ratios(panel: Axes, result: penchant.Result, split: str, position: int, style: str) -> None:
    """One curve a trace ratio."""
    shown_ratios = result.options["ratios"]
    for number, (k, colour) in enumerate(
        zip(shown_ratios, palette(len(shown_ratios), ordered=True))
    ):
        _line(
            panel,
            result,
            f"{split}-trace-ratios",
            position,
            column=number,
            color=colour,
            linestyle=style,
            label=f"T_{k}, {split}",
        )


def _alignment(result: penchant.Result) -> Figure:
    """Alignment of the whole kernel and of its layers (figure 4.3)."""
    figure, grid = _panels(result, 3)
    for position, column in enumerate(grid.T):
        # the whole kernel on top, its layers below
        _whole_kernel(column[0], result, position)
        for panel, split in zip(column[1:], STYLES):
            _layers(panel, result, split, position)

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


def _whole_kernel(panel: Axes, result: penchant.Result, position: int) -> None:
    """Alignment on training and test samples, with that of labels in random order."""
    steps = result.arrays["steps"]
    for split, colour in (("train", BLUE), ("test", ORANGE)):
        _line(
            panel,
            result,
            f"{split}-cka",
            position,
            color=colour,
            linestyle=STYLES[split],
            label=split,
        )
        null = result.arrays[f"{split}-cka-null"][position]
        panel.plot(steps, null, ":", color=colour, alpha=0.7, label=f"{split}, null")


def _layers(panel: Axes, result: penchant.Result, split: str, position: int) -> None:
    """One curve per layer, from dark to light."""
    names = result.labels["layers"]
    colours = palette(len(names), ordered=True)
    for number, colour in enumerate(colours):
        _line(
            panel,
            result,
            f"{split}-layer-cka",
            position,
            column=number,
            color=colour,
            linestyle=STYLES[split],
            label=names[number],
        )


def _difficult(result: penchant.Result) -> Figure:
    """Alignment on easy and on difficult samples, and accuracies (figure 4.4)."""
    figure, grid = _panels(result, 2)
    kinds = {"train": ("easy", BLUE), "difficult": ("difficult", RED)}
    steps = result.arrays["steps"]
    for position, (cka, accuracy) in enumerate(grid.T):
        for split, (label, colour) in kinds.items():
            how: dict[str, Any] = {"label": label, "marker": "o", "markersize": 3}
            _line(cka, result, f"{split}-cka", position, color=colour, **how)
            _line(accuracy, result, f"{split}-accuracy", position, color=colour, **how)

            # labels in random order
            null = result.arrays[f"{split}-cka-null"][position]
            cka.plot(steps, null, ":", color=colour, alpha=0.7, label=f"{label}, null")

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
