"""Figures of the probe `class-paths`."""

from __future__ import annotations

from typing import Any

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, GREY, ORANGE, captioned

SHOWN = 6  # paths
COLUMNS = 9  # inputs of a path
KINDS = ("image-image", "image-adversarial", "adversarial-adversarial")


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Connected shares by kind, lengths, and a few paths as pictures."""
    drawn = {"connected": _summary(result)}
    paths = result.arrays["paths"]
    if paths.ndim == 5 and len(paths) and paths.shape[2] in (1, 3):
        drawn["paths"] = _pictures(result)
    return drawn


def _summary(result: penchant.Result) -> Figure:
    figure = Figure(figsize=(9.2, 3.9))
    left, right = figure.subplots(1, 2)
    _bars(left, result)
    connected = result.arrays["connected"].astype(bool)
    ratios = result.arrays["length-ratios"][connected]
    if len(ratios):
        right.hist(100 * (ratios - 1), bins=20, color=ORANGE)
    right.set(xlabel="longer than the straight line (%)", ylabel="connected pairs")
    quantity = result.quantities["connected"]
    caption = f"Pairs of inputs joined by a path that keeps the class: {quantity}."
    return captioned(figure, caption, title="Paths within a class")


def _bars(axes: Axes, result: penchant.Result) -> None:
    """Bent paths beside straight lines, with their errors, for every kind of ends."""
    present = [name for name in KINDS if f"connected-{name}" in result.quantities]
    places = np.arange(len(present))
    found = [result.quantities[f"connected-{name}"] for name in present]
    bars = {
        "straight line": ([each.null for each in found], [each.null_stderr for each in found]),
        "bent path": ([each.value for each in found], [each.stderr for each in found]),
    }
    for number, (label, (values, errors)) in enumerate(bars.items()):
        shift = 0.4 * number - 0.2
        colour = (GREY, BLUE)[number]
        axes.bar(places + shift, values, 0.38, yerr=errors, color=colour, label=label)
    names = []
    for name, each in zip(present, found):
        names.append(f"{name.replace('-', '-' + chr(10), 1)}\n({each.count})")
    axes.set_xticks(places, names)
    axes.set(ylabel="share of pairs that keep the class", ylim=(0, 1.25))
    axes.legend(loc="upper center", ncols=2)


def _pictures(result: penchant.Result) -> Figure:
    """A few stored paths, from one end to the other."""
    paths = result.arrays["paths"][:SHOWN]
    columns = np.unique(np.linspace(0, paths.shape[1] - 1, COLUMNS).astype(int))
    figure = Figure(figsize=(1.0 * len(columns) + 1.4, 1.05 * len(paths) + 0.8))
    axes = figure.subplots(len(paths), len(columns), squeeze=False)
    for row, path in enumerate(paths):
        low, high = float(path.min()), float(path.max())
        scaled = np.clip((path - low) / (high - low or 1.0), 0, 1)
        for panel, column in zip(axes[row], columns):
            _picture(panel, scaled[column])
        label = f"class {int(result.arrays['path-classes'][row])}"
        if not result.arrays["path-connected"][row]:
            label += "\n(not joined)"
        axes[row, 0].set_ylabel(label, fontsize=8)
    caption = "Every row is a path from one input to another that the network gives the same class."
    return captioned(figure, caption, title="Paths")


def _picture(axes: Axes, values: Any) -> None:
    """An input with one channel in grey, with three in colour."""
    picture = values.transpose(1, 2, 0) if len(values) == 3 else values[0]
    axes.imshow(picture, cmap="gray", vmin=0, vmax=1)
    axes.set(xticks=[], yticks=[])
