"""Figures of `pooling-theory`, drawn from stored results."""

from __future__ import annotations

import numpy as np
import penchant
from matplotlib import colormaps
from matplotlib.figure import Figure


def accuracy(result: penchant.Result) -> Figure:
    """Bayes accuracy behind pooling by frequency: simulation, corrected theorem, the paper's two versions."""
    arrays = result.arrays
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.errorbar(
        arrays["frequency"],
        arrays["simulation"],
        arrays["simulation-stderr"],
        fmt=".",
        color="#2b5c8a",
        label="simulation",
    )
    axes.plot(arrays["frequency"], arrays["theory"], color="#d9822b", label="theorem, corrected")
    axes.plot(
        arrays["frequency"],
        arrays["theory-text"],
        color="#7a8aa0",
        linestyle="--",
        linewidth=1,
        label="as printed in the text",
    )
    axes.plot(
        arrays["frequency"],
        arrays["theory-supplement"],
        color="#7a8aa0",
        linestyle=":",
        linewidth=1,
        label="in the supplement",
    )
    axes.set(xlabel="frequency", ylabel="best accuracy behind pooling", ylim=(0.45, 1.03))
    axes.legend(frameon=False, fontsize=8)
    return figure


def curvature(result: penchant.Result) -> Figure:
    """Mean curvature along phi_l and theta_(l mod M), and the ratio zeta."""
    arrays = result.arrays
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, color, label in (
        ("curvature", "#2b5c8a", "filter"),
        ("theta-curvature", "#5f9e6e", "readout"),
    ):
        axes.errorbar(
            arrays["frequency"],
            arrays[name],
            arrays[f"{name}-stderr"],
            fmt=".",
            color=color,
            label=f"{label}, measured",
        )
        axes.plot(
            arrays["frequency"],
            arrays[f"{name}-theory"],
            color=color,
            linewidth=1,
            label=f"{label}, lemma",
        )
    axes.set(xlabel="frequency", ylabel="mean second derivative of the loss")
    other = axes.twinx()
    other.plot(arrays["frequency"], arrays["zeta"], color="#d9822b", linestyle="--", label="zeta")
    other.set_ylabel("zeta", color="#d9822b")
    axes.legend(frameon=False, fontsize=8, loc="upper right")
    return figure


def loss_curves(result: penchant.Result) -> Figure:
    """Training loss of the linear model, one curve a frequency."""
    curves, stderr = result.arrays["loss-curves"], result.arrays["loss-curves-stderr"]
    chosen = result.arrays["curve-frequency"]
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    steps = np.arange(curves.shape[1])
    for number, frequency in enumerate(chosen):
        color = colormaps["viridis"](number / max(1, len(chosen) - 1))
        axes.semilogy(steps, curves[number], color=color, linewidth=1.1, label=str(frequency))
        lower, upper = (
            np.maximum(curves[number] - stderr[number], curves[number] / 10),
            curves[number] + stderr[number],
        )
        axes.fill_between(steps, lower, upper, color=color, alpha=0.2, linewidth=0)
    axes.set(xlabel="step", ylabel="training loss")
    axes.legend(frameon=False, fontsize=8, title="frequency", ncols=2)
    return figure
