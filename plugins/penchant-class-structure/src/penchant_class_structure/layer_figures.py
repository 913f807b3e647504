"""Figures of the probe `layer-structure`: one panel for each layer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import penchant
from matplotlib.figure import Figure

from penchant_class_structure._log_axes import few_ticks

OUTLIERS, REST, PART, MEANS = "#2b5c8a", "#d9822b", "#d9822b", "#888888"
COLUMNS = 8
_SMALLEST = 1e-10  # of the largest value: smaller ones are rounding


def _panels(result: penchant.Result, title: str) -> tuple[Figure, list[Any], list[str]]:
    names = result.conventions.get("layers", "").split(", ")
    count = len(result.arrays["features"])
    columns = min(COLUMNS, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(2.3 * columns + 0.6, 2.4 * rows + 0.5), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in axes[count:]:
        unused.set_visible(False)
    figure.suptitle(title, fontsize=10)
    return (
        figure,
        axes[:count],
        names if len(names) == count else [str(number) for number in range(count)],
    )


def scatter(result: penchant.Result, name: str, left: str, what: str) -> Figure:
    """Log eigenvalues against those left by a knockout, the leading ones in blue, both scaled to [0, 1]."""
    classes = result.arrays["features-class"].shape[1]
    count = classes * (classes - 1) if "cross" in left else classes
    figure, panels, names = _panels(result, f"{name}: before, and without {what}")
    for axes, layer, before, after in zip(panels, names, result.arrays[name], result.arrays[left]):
        shown = (before > _SMALLEST * before[0]) & (after > _SMALLEST * before[0])
        x, y = np.log(after[shown]), np.log(before[shown])
        if len(x) > 1:
            low, high = min(x.min(), y.min()), max(x.max(), y.max())
            scale = (high - low) or 1.0
            x, y = (x - low) / scale, (y - low) / scale
            axes.plot([0, 1], [0, 1], color="black", linewidth=0.8)
            axes.plot(x[count:], y[count:], ".", markersize=3, color=REST)
            axes.plot(x[:count], y[:count], ".", markersize=5, color=OUTLIERS)
        else:
            axes.text(0.5, 0.5, "nothing is left", ha="center", va="center", fontsize=8)
        axes.set_title(f"layer {layer}", fontsize=8)
        axes.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.05), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        axes.tick_params(labelsize=6)
    panels[0].set_ylabel("log before, scaled", fontsize=8)
    panels[0].set_xlabel("log after, scaled", fontsize=8)
    return figure


def scree(result: penchant.Result, name: str) -> Figure:
    """Eigenvalues with those of the class part, whiskers from its second largest to its smallest."""
    figure, panels, names = _panels(
        result,
        f"eigenvalues of {name}, of their class part"
        + (", of all means" if name == "errors" else ""),
    )
    for number, (axes, layer) in enumerate(zip(panels, names)):
        total, part = result.arrays[name][number], result.arrays[f"{name}-class"][number]
        _points(axes, total, OUTLIERS, ".", 4)
        if name == "errors":
            _points(axes, result.arrays["errors-means"][number], MEANS, "x", 3)
        _points(axes, part, PART, "o", 4)
        positive = part[part > _SMALLEST * part[0]]
        if len(positive) > 1:
            axes.vlines(0.6, positive[-1], positive[1], color="black", linewidth=1.2)
        axes.set(xscale="log", yscale="log")
        few_ticks(axes)
        axes.set_title(f"layer {layer}", fontsize=8)
        axes.tick_params(labelsize=6)
    panels[0].set_ylabel("eigenvalue", fontsize=8)
    panels[0].set_xlabel("index", fontsize=8)
    return figure


def _points(axes: Any, values: np.ndarray, color: str, marker: str, size: float) -> None:
    shown = values > _SMALLEST * values[0]
    axes.plot(
        np.arange(1, len(values) + 1)[shown], values[shown], marker, markersize=size, color=color
    )


def depth(result: penchant.Result) -> Figure:
    """Separation (with its null) and whitening against depth."""
    figure = Figure(figsize=(8.6, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    layers = np.arange(1, len(result.arrays["features"]) + 1)
    for name, color in (("features", OUTLIERS), ("errors", REST)):
        left.semilogy(
            layers,
            result.arrays[f"separation-{name}-by-layer"],
            marker="o",
            color=color,
            label=name,
        )
        if f"separation-{name}-null" in result.arrays:
            null = result.arrays[f"separation-{name}-null"]
            left.semilogy(
                layers,
                null,
                marker=".",
                linestyle=":",
                color=color,
                label=f"{name}, permuted classes",
            )
        right.semilogy(
            layers, result.arrays[f"whitening-{name}-by-layer"], marker="o", color=color, label=name
        )
    left.axhline(1, color="#999999", linewidth=0.8)
    left.set(xlabel="layer", ylabel="separation")
    right.set(xlabel="layer", ylabel="whitening: 2nd largest / smallest")
    few_ticks(left, right)
    for axes in (left, right):
        axes.set_xticks(layers)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure
