"""Figures of `class-paths`, drawn from stored results."""

from __future__ import annotations

from typing import Any

import numpy as np
import penchant
from matplotlib.figure import Figure

from penchant_spectral_bias.figures.frequency_learning import BLUE, GREY, ORANGE
from penchant_spectral_bias.probes.class_paths import KINDS

SHOWN = 6


def summary(result: penchant.Result) -> Figure:
    """Share of connected pairs by kind, bent and straight, and the lengths of connected paths."""
    kind, connected, straight = (result.arrays[name] for name in ("kind", "connected", "straight"))
    figure = Figure(figsize=(9.2, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    present = [number for number in range(len(KINDS)) if (kind == number).any()]
    for place, number in enumerate(present):
        members = kind == number
        left.bar(
            place - 0.2,
            straight[members].mean(),
            0.38,
            color=GREY,
            label="straight line" if not place else None,
        )
        left.bar(
            place + 0.2,
            connected[members].mean(),
            0.38,
            color=BLUE,
            label="bent path" if not place else None,
        )
    names = [
        f"{KINDS[number].replace('-', '-' + chr(10), 1)}\n({int((kind == number).sum())})"
        for number in present
    ]
    left.set_xticks(range(len(present)), names, fontsize=8)
    left.set(ylabel="share of pairs that keep the class", ylim=(0, 1.18))
    left.legend(frameon=False, fontsize=8, loc="upper center", ncols=2)
    lengths = result.arrays["length"][connected.astype(bool)]
    if len(lengths):
        right.hist(100 * (lengths - 1), bins=20, color=ORANGE)
    right.set(xlabel="longer than the straight line (%)", ylabel="connected pairs")
    return figure


def pictures(result: penchant.Result) -> Figure:
    """A few stored paths, from one end to the other."""
    paths, classes, connected = (
        result.arrays[name] for name in ("paths", "path-class", "path-connected")
    )
    paths = paths[:SHOWN]
    columns = np.unique(np.linspace(0, paths.shape[1] - 1, 9).astype(int))
    figure = Figure(
        figsize=(1.0 * len(columns) + 1.2, 1.05 * len(paths) + 0.2), layout="constrained"
    )
    axes = figure.subplots(len(paths), len(columns), squeeze=False)
    for row, path in enumerate(paths):
        low, high = float(path.min()), float(path.max())
        for panel, column in zip(axes[row], columns):
            _picture(panel, path[column], low, high)
        label = f"class {int(classes[row])}" + ("" if connected[row] else "\n(not joined)")
        axes[row, 0].set_ylabel(label, fontsize=8)
    return figure


def _picture(axes: Any, values: Any, low: float, high: float) -> None:
    scaled = np.clip((values - low) / (high - low or 1.0), 0, 1)
    axes.imshow(
        scaled.transpose(1, 2, 0) if len(values) == 3 else scaled[0], cmap="gray", vmin=0, vmax=1
    )
    axes.set_xticks([])
    axes.set_yticks([])


def draw(result: penchant.Result) -> dict[str, Figure]:
    """The figures, in the order in which they should be seen."""
    drawn = {"summary": summary(result)}
    if result.arrays["paths"].ndim == 5 and len(result.arrays["paths"]):
        drawn["paths"] = pictures(result)
    return drawn
