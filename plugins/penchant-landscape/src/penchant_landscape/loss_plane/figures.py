"""Figures of the probe `loss-plane`."""

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, ORANGE, captioned, heat_map, palette

_KINDS = {"random": "random directions", "eigenvector": "eigenvectors of the Hessian"}


def headline(result: penchant.Result) -> str | None:
    """What the path looks like, in one sentence."""
    barrier = result.quantities.get("barrier")
    if barrier is None:
        return None
    path = "the straight path between the first and last checkpoint"
    if not barrier.is_significant:
        return f"On {path} there is no significant barrier."
    if barrier.value < 0:
        return f"On {path} the loss stays below the line between the losses of its ends."
    size = f"{barrier.value:.3g}"
    return f"On {path} the loss rises up to {size} above the line between the losses of its ends."


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Paths, lines with the quadratic model, planes."""
    figures = {}
    if "path-loss" in result.arrays:
        figures["paths"] = paths(result)
    figures["lines"] = lines(result)
    if "random-plane-loss" in result.arrays:
        figures["planes"] = planes(result)
    if result.tables:
        figures["modules"] = modules(result)
    return figures


def paths(result: penchant.Result) -> Figure:
    """Loss and accuracy on straight paths to the last checkpoint."""
    arrays = result.arrays
    figure = Figure(figsize=(8.8, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    steps = arrays["path-steps"]
    colours = palette(len(steps), ordered=len(steps) > 1)
    positions = arrays["path-positions"]
    for number, (step, colour) in enumerate(zip(steps, colours)):
        for panel, name in ((left, "path-loss"), (right, "path-accuracy")):
            values = arrays[name][number]
            panel.plot(positions, values, color=colour, label=f"from step {step}")
            _band(panel, positions, values, arrays[f"{name}-stderr"][number], colour)
        ends = arrays["path-loss"][number][[0, -1]]
        left.plot([0, 1], ends, color=colour, linewidth=0.8, linestyle=":")
    top = 1.15 * arrays["path-loss"].max()
    model = arrays["path-quadratic"][0]
    near = model <= top
    left.plot(positions[near], model[near], color=ORANGE, linestyle="--", label="quadratic model")
    left.set(xlabel="share of the path", ylabel="mean loss", ylim=(0, top))
    right.set(xlabel="share of the path", ylabel="accuracy", ylim=(0, 1.02))
    left.legend(frameon=False, fontsize=8)
    return captioned(
        figure,
        "Loss and accuracy on straight paths from earlier checkpoints (0) to the last (1), with "
        "bands of two standard errors over samples; dotted: the line between the ends, from which "
        "a barrier is measured; dashed: the quadratic model at the last checkpoint, for the first "
        "path.",
        title="Straight paths between checkpoints",
    )


def lines(result: penchant.Result) -> Figure:
    """Loss along random directions and eigenvectors, with the quadratic model."""
    arrays = result.arrays
    figure = Figure(figsize=(8.8, 3.8), layout="constrained")
    for panel, (name, title) in zip(figure.subplots(1, 2), _KINDS.items()):
        _lines_of(panel, arrays, name)
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


def _lines_of(panel: Axes, arrays: dict[str, np.ndarray], name: str) -> None:
    """The first lines of a kind, the others faint."""
    positions = arrays[f"{name}-positions"]
    losses = arrays[f"{name}-loss"]
    for values in losses[2:]:
        panel.plot(positions, values, color=FAINT, linewidth=0.5, alpha=0.6)
    labels = ("first", "second")
    for number, colour in zip(range(min(2, len(losses))), (BLUE, ORANGE)):
        values = losses[number]
        panel.plot(positions, values, color=colour, label=f"{labels[number]}, measured")
        _band(panel, positions, values, arrays[f"{name}-loss-stderr"][number], colour)
        model = arrays[f"{name}-quadratic"][number]
        panel.plot(positions, model, color=colour, linestyle="--", label="quadratic model")
    highest = max(losses.max(), arrays["eigenvector-quadratic"].max())
    lowest = min(0.0, float(losses.min()))
    panel.set_ylim(lowest, 1.1 * highest)


def planes(result: penchant.Result) -> Figure:
    """Loss in planes around the network."""
    arrays = result.arrays
    kinds = [name for name in _KINDS if f"{name}-plane-loss" in arrays]
    figure = Figure(figsize=(4.6 * len(kinds), 3.8), layout="constrained")
    positions = [round(float(position), 2) for position in arrays["plane-positions"]]
    for panel, name in zip(np.atleast_1d(figure.subplots(1, len(kinds))), kinds):
        heat_map(
            np.log10(np.maximum(arrays[f"{name}-plane-loss"], 1e-12)),
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
    names = [str(each) for each in tables["sharpness-by-module"].axes["module"]]
    kinds = {
        "random-loss-by-module": ("distance", "distance, filter norms"),
        "path-loss-by-module": ("position", "share of the path"),
    }
    shown = [name for name in kinds if name in tables]
    figure = Figure(figsize=(4.2 * (len(shown) + 1), 3.8), layout="constrained")
    *panels, last = figure.subplots(1, len(shown) + 1)
    for panel, kind in zip(panels, shown):
        axis, xlabel = kinds[kind]
        for name, colour in zip(names, palette(len(names))):
            own = tables[kind].at(module=name)
            positions = np.array(own.axes[axis])
            panel.plot(positions, own.values, color=colour, label=name)
            _band(panel, positions, own.values, np.asarray(own.stderr), colour)
        panel.set(xlabel=xlabel, ylabel="mean loss")
        panel.legend(frameon=False, fontsize=8)
    sharpness = tables["sharpness-by-module"]
    positions = np.arange(len(names))
    last.bar(positions, sharpness.values, yerr=2 * np.asarray(sharpness.stderr), capsize=2)
    last.plot(positions, np.asarray(sharpness.null), "_", color=ORANGE, markersize=26)
    last.set_xticks(positions, names, rotation=30, ha="right")
    last.set(ylabel="largest eigenvalue of the block")
    return captioned(
        figure,
        "Mean loss where only one module moves and the others stay at the last network: along "
        "random directions, and on the straight path from the first checkpoint. Right: the largest "
        "eigenvalue of its block of the Hessian; marks: mean curvature along random directions. "
        "Bands and bars are two standard errors.",
        title="The loss by module",
    )


def _band(
    panel: Axes, positions: np.ndarray, values: np.ndarray, stderr: np.ndarray, colour: str
) -> None:
    """Two standard errors around a curve."""
    panel.fill_between(
        positions, values - 2 * stderr, values + 2 * stderr, color=colour, alpha=0.2, linewidth=0
    )
