"""Figures of the probe `layer-structure`: one panel for each layer."""

import math
from collections.abc import Sequence

import attrs
import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, GREY, ORANGE, captioned, log_ticks
from penchant_numerics.pictures.curves import Panel, panels

COLUMNS = 8
_SMALLEST = 1e-10  # of the largest value: smaller ones are rounding


def draw(result: penchant.Result) -> dict[str, Figure]:
    """What changes with depth, knockouts (figures 7, 9, 13) and scree plots (8, 10)."""
    return {
        "depth": depth(result),
        "features-knockout": knockout(
            result, "features", "features-without-class", what="class means"
        ),
        "features-scree": scree(result, "features"),
        "errors-knockout": knockout(result, "errors", "errors-without-class", what="class means"),
        "errors-cross-knockout": knockout(
            result,
            "errors-without-class",
            "errors-without-class-cross",
            what="cross-class means too",
        ),
        "errors-scree": scree(result, "errors"),
        "weights-knockout": knockout(
            result, "weights", "weights-without-class", what="class means"
        ),
    }


def _panels(result: penchant.Result) -> tuple[Figure, list[Axes], Sequence[str]]:
    """A figure with a panel for each layer, and the layers' names."""
    names = [str(name) for name in result.tables["separation-features-by-layer"].axes["layer"]]
    count = len(names)
    columns = min(COLUMNS, count)
    rows = math.ceil(count / columns)

    # one or two panels are wide enough for the caption, too
    width = max(4.8, 2.3 * columns + 0.6)
    height = 2.5 * rows + 1.1
    figure = Figure(figsize=(width, height))
    grid = figure.subplots(rows, columns, squeeze=False)
    axes = list(grid.flat)

    # the last row may have room for more
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count], names


def knockout(result: penchant.Result, name: str, left: str, *, what: str) -> Figure:
    """Log eigenvalues against those left by a knockout, both scaled to [0, 1]."""
    # as many points in blue as the means could make
    classes = result.arrays["features-class"].shape[1]
    count = classes * (classes - 1) if "cross" in left else classes
    figure, axes, names = _panels(result)
    rows = zip(axes, names, result.arrays[name], result.arrays[left])
    for panel, layer, before, after in rows:
        _before_and_after(panel, before, after, count)
        panel.set_title(f"layer {layer}", fontsize=8)
        panel.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.05), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        panel.tick_params(labelsize=7)
    axes[0].set_ylabel("log before, scaled", fontsize=8)
    axes[0].set_xlabel("log after, scaled", fontsize=8)
    return captioned(
        figure,
        f"Points above the line are lowered by the knockout; the {count} leading ones are blue.",
        title=f"{name.split('-')[0].capitalize()}: before, and without {what}",
    )


def _before_and_after(axes: Axes, before: np.ndarray, after: np.ndarray, count: int) -> None:
    shown = (before > _SMALLEST * before[0]) & (after > _SMALLEST * before[0])
    x, y = np.log(after[shown]), np.log(before[shown])
    if len(x) < 2:
        axes.text(0.5, 0.5, "nothing is left", ha="center", va="center", fontsize=8)
        return

    # both axes have one scale, so that the diagonal means unchanged
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    scale = (high - low) or 1.0
    x, y = (x - low) / scale, (y - low) / scale
    axes.plot([0, 1], [0, 1], color="black", linewidth=0.8)
    axes.plot(x[count:], y[count:], ".", markersize=3, color=ORANGE)
    axes.plot(x[:count], y[:count], ".", markersize=6, color=BLUE)


def scree(result: penchant.Result, name: str) -> Figure:
    """Eigenvalues, with those of the class component."""
    figure, axes, names = _panels(result)
    for number, (panel, layer) in enumerate(zip(axes, names)):
        total = result.arrays[name][number]
        component = result.arrays[f"{name}-class"][number]
        _points(panel, total, BLUE, ".", 4, "all")
        if name == "errors":
            means = result.arrays["errors-means"][number]
            _points(panel, means, GREY, "x", 3, "class and cross-class means")
        _points(panel, component, ORANGE, "o", 4, "class means")

        # the whisker: how equal the eigenvalues of the class component are
        positive = component[component > _SMALLEST * component[0]]
        if len(positive) > 1:
            panel.vlines(0.6, positive[-1], positive[1], color="black", linewidth=1.2)
        panel.set(xscale="log", yscale="log")
        log_ticks(panel)
        panel.set_title(f"layer {layer}", fontsize=8)
        panel.tick_params(labelsize=7)
    axes[0].set_ylabel("eigenvalue", fontsize=8)
    axes[0].set_xlabel("rank", fontsize=8)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)
    return captioned(
        figure,
        "The whisker spans the second largest to the smallest eigenvalue of the class component.",
        title=f"{name.capitalize()}: eigenvalues, and those of their class component",
    )


def _points(
    axes: Axes, values: np.ndarray, colour: str, marker: str, size: float, label: str
) -> None:
    shown = values > _SMALLEST * values[0]
    positions = np.arange(1, len(values) + 1)[shown]
    axes.plot(positions, values[shown], marker, markersize=size, color=colour, label=label)


def depth(result: penchant.Result) -> Figure:
    """Separation and whitening against depth, with their nulls."""
    separation, whitening = (_by_kind(result, each) for each in ("separation", "whitening"))
    figure = panels(
        {
            "separation": Panel(
                separation, "ratio", level=1.0, level_label="separated above", yscale="log"
            ),
            "whitening": Panel(whitening, "2nd largest / smallest", yscale="log"),
        },
        x="layer",
    )
    return captioned(
        figure,
        "Class means are separated if the separation is above 1; null: permuted classes.",
        title="Class structure by layer",
    )


def _by_kind(result: penchant.Result, statistic: str) -> dict[str, penchant.Table]:
    """Numbers of features and of errors by layer, with those of permuted classes."""
    tables = {}
    for kind in ("features", "errors"):
        table = result.tables[f"{statistic}-{kind}-by-layer"]
        null = result.tables.get(f"{statistic}-{kind}-null")
        tables[kind] = attrs.evolve(table, null=None if null is None else null.values)
    return tables
