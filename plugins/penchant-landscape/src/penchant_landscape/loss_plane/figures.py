"""Figures of the probe `loss-plane`."""

from collections.abc import Mapping

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, ORANGE, captioned, heat_map, palette
from penchant_numerics.pictures.curves import Panel, curves, panels

_KINDS = {"random": "random directions", "eigenvector": "eigenvectors of the Hessian"}


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Paths, lines with the quadratic model, planes."""
    figures = {}
    if "path-loss" in result.tables:
        figures["paths"] = paths(result)
    figures["lines"] = lines(result)
    if "random-plane-loss" in result.tables:
        figures["planes"] = planes(result)
    if "sharpness-by-module" in result.tables:
        figures["modules"] = modules(result)
    return figures


def paths(result: penchant.Result) -> Figure:
    """Loss and accuracy on straight paths to the last checkpoint."""
    loss, model = result.tables["path-loss"], result.tables["path-quadratic"]
    first = loss.axes["step"][0]
    figure = panels(
        {
            "loss": Panel(loss, "mean loss", model.at(step=first), "quadratic model"),
            "accuracy": Panel(result.tables["path-accuracy"], "accuracy"),
        },
        x="position",
        xlabel="share of the path",
    )
    left, right = figure.axes
    for values, colour in zip(loss.values, palette(len(loss.values), ordered=len(loss.values) > 1)):
        left.plot([0, 1], values[[0, -1]], color=colour, linewidth=0.8, linestyle=":")
    left.set_ylim(0, 1.15 * loss.values.max())
    right.set_ylim(0, 1.02)
    return captioned(
        figure,
        "Loss and accuracy on straight paths from earlier checkpoints (0) to the last (1), with "
        "standard errors over samples; dotted: the line between the ends, from which a barrier is "
        "measured; dashed: the quadratic model at the last checkpoint, for the first path.",
        title="Straight paths between checkpoints",
    )


def lines(result: penchant.Result) -> Figure:
    """Loss along random directions and eigenvectors, with the quadratic model."""
    figure = Figure(figsize=(8.8, 3.8), layout="constrained")
    for panel, (name, title) in zip(figure.subplots(1, 2), _KINDS.items()):
        _lines_of(panel, result.tables, name)
        unit = "filter norms" if name == "random" else "lengths of the line"
        panel.set(xlabel=f"distance from the network, {unit}", ylabel="mean loss", title=title)
        panel.legend(frameon=False, fontsize=8)
    return captioned(
        figure,
        "Mean loss along random filter-normalised directions and along leading eigenvectors of the "
        "Hessian (each as far as the quadratic model predicts the same rise), with bands of two "
        "standard errors over samples; dashed: the quadratic model from gradient and Hessian.",
        title="The loss around the network",
    )


def _lines_of(panel: Axes, tables: Mapping[str, penchant.Table], name: str) -> None:
    """The first lines of a kind, the others faint."""
    loss, model = tables[f"{name}-loss"], tables[f"{name}-quadratic"]
    _, x = loss.axes
    positions = loss.coordinates(x)
    for values in loss.values[2:]:
        panel.plot(positions, values, color=FAINT, linewidth=0.5, alpha=0.6)
    rows = zip(
        ("first", "second"), (BLUE, ORANGE), loss.values, np.asarray(loss.stderr), model.values
    )
    for label, colour, values, stderr, quadratic in rows:
        panel.plot(positions, values, color=colour, label=f"{label}, measured")
        low, high = values - 2 * stderr, values + 2 * stderr
        panel.fill_between(positions, low, high, color=colour, alpha=0.2, linewidth=0)
        panel.plot(positions, quadratic, color=colour, linestyle="--", label="quadratic model")
    highest = max(loss.values.max(), tables["eigenvector-quadratic"].values.max())
    lowest = min(0.0, float(loss.values.min()))
    panel.set_ylim(lowest, 1.1 * highest)


def planes(result: penchant.Result) -> Figure:
    """Loss in planes around the network."""
    kinds = [name for name in _KINDS if f"{name}-plane-loss" in result.tables]
    figure = Figure(figsize=(4.6 * len(kinds), 3.8), layout="constrained")
    table = result.tables["random-plane-loss"]
    positions = [round(float(each), 2) for each in table.axes["first-position"]]
    for panel, name in zip(np.atleast_1d(figure.subplots(1, len(kinds))), kinds):
        heat_map(
            np.log10(np.maximum(result.tables[f"{name}-plane-loss"].values, 1e-12)),
            columns=positions,
            rows=positions,
            xlabel="first direction",
            ylabel="second direction",
            label="log10 of the mean loss",
            axes=panel,
        )
        panel.set_title(_KINDS[name])
    return captioned(
        figure,
        "Logarithm of the mean loss in the plane of two random filter-normalised directions, and "
        "of the two leading eigenvectors; the network is in the middle, the ends are those of the "
        "lines.",
        title="Planes through the network",
    )


def modules(result: penchant.Result) -> Figure:
    """Loss along random directions and paths of each module, and the eigenvalues of blocks."""
    tables = result.tables
    kinds = {
        "random-loss-by-module": ("distance", "distance, filter norms"),
        "path-loss-by-module": ("position", "share of the path"),
    }
    shown = [name for name in kinds if name in tables]
    figure = Figure(figsize=(4.2 * (len(shown) + 1), 3.8), layout="constrained")
    *panels, last = figure.subplots(1, len(shown) + 1)
    for panel, kind in zip(panels, shown):
        axis, xlabel = kinds[kind]
        curves(tables[kind], x=axis, y="mean loss", xlabel=xlabel, axes=panel)
    sharpness = tables["sharpness-by-module"]
    curves(sharpness, x="module", y="largest eigenvalue of the block", axes=last)
    return captioned(
        figure,
        "Mean loss where only one module moves and the others stay at the last network: along "
        "random directions, and on the straight path from the first checkpoint. Right: the largest "
        "eigenvalue of its block of the Hessian; dashed: mean curvature along random directions. "
        "Bands and bars are standard errors.",
        title="The loss by module",
    )
