"""Figures of the probe `critical-sharpness`."""

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, captioned
from penchant_numerics.pictures.curves import Panel, panels

LINES = {
    "critical-sharpness": "critical sharpness, forward passes",
    "sharpness": "largest eigenvalue of the Hessian",
    "stability-limit": "2 (1 + momentum) / rate",
}


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Along the states, and one number against the other where there are both."""
    figures = {"training": training(result)}
    if "sharpness" in result.tables and len(result.tables["sharpness"].values) > 1:
        figures["agreement"] = agreement(result)
    return figures


def training(result: penchant.Result) -> Figure:
    """Sharpness and loss along the training."""
    known = {label: result.tables[name] for name, label in LINES.items() if name in result.tables}
    null = result.quantities["critical-sharpness"].null
    shown = null if null is not None and null > 0 else None
    curvature = Panel(known, "curvature", level=shown, level_label="random directions, last state")
    loss = Panel(result.tables["loss"], "mean loss")
    figure = panels({"sharpness": curvature, "loss": loss}, x="step", xlabel="step of training")
    _positive_axis(figure.axes[0])
    return captioned(
        figure,
        "Left: critical sharpness with standard errors over samples, the largest eigenvalue of "
        "the Hessian where it was computed, the limit of stability of gradient descent where the "
        "rate is known, and the mean curvature along random directions at the last state. Right: "
        "the loss on the same samples.",
        title="Sharpness along the training",
    )


def _positive_axis(panel: Axes) -> None:
    """A logarithmic axis, where all numbers allow it."""
    values = np.concatenate([np.asarray(line.get_ydata(), float) for line in panel.get_lines()])
    known = values[np.isfinite(values)]
    if len(known) and known.min() > 0:
        panel.set_yscale("log")


def agreement(result: penchant.Result) -> Figure:
    """Critical sharpness against the largest eigenvalue, a point for each state."""
    figure = Figure(figsize=(4.6, 4.0), layout="constrained")
    panel = figure.subplots()
    exact = result.tables["sharpness"].values
    critical = result.tables["critical-sharpness"]
    errors = critical.stderr if isinstance(critical.stderr, np.ndarray) else None
    panel.errorbar(
        exact,
        critical.values,
        yerr=None if errors is None else 2 * errors,
        fmt="o",
        color=BLUE,
        markersize=4,
        capsize=2,
    )
    ends = [float(np.nanmin(exact)), float(np.nanmax(exact))]
    panel.plot(ends, ends, color=FAINT, linestyle=":", label="equal")
    panel.set(xlabel="largest eigenvalue of the Hessian", ylabel="critical sharpness")
    panel.legend(frameon=False, fontsize=8)
    return captioned(
        figure,
        "One point for each state, with two standard errors over samples; dotted: equal. For a "
        "quadratic loss points lie on that line or below it.",
        title="Critical sharpness and the largest eigenvalue",
    )
