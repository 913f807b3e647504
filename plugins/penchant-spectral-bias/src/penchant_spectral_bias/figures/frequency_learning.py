"""Figures of `frequency-learning`, drawn from stored results."""

from __future__ import annotations

from typing import Any

import numpy as np
import penchant
from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#2b5c8a", "#d9822b", "#7a8aa0"


def heat_map(axes: Any, values: Any, columns: Any, steps: Any, **options: Any) -> Any:
    """Rows are steps, upwards; columns are numbered categories, so that uneven frequencies are evenly wide."""
    drawn = axes.imshow(
        values, origin="lower", aspect="auto", cmap="viridis", interpolation="nearest", **options
    )
    every = max(1, len(columns) // 10)
    axes.set_xticks(np.arange(len(columns))[::every], [f"{value:g}" for value in columns[::every]])
    rows = np.unique(np.linspace(0, len(steps) - 1, 6).astype(int))
    axes.set_yticks(rows, [f"{steps[row]:g}" for row in rows])
    return drawn


def amplitudes(result: penchant.Result) -> Figure:
    """Amplitude relative to the target by frequency and step (left), and as curves (right)."""
    frequencies, steps, amplitude = (
        result.arrays[name] for name in ("frequencies", "steps", "amplitude")
    )
    figure = Figure(figsize=(9.5, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    drawn = heat_map(left, amplitude, frequencies, steps, vmin=0, vmax=1)
    left.set(xlabel="frequency", ylabel="step")
    figure.colorbar(drawn, ax=left, label="amplitude / target")
    import matplotlib

    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, len(frequencies)))
    for number, frequency in enumerate(frequencies):
        right.plot(
            steps,
            amplitude[:, number],
            color=colours[number],
            linewidth=1.2,
            label=f"{frequency:g}",
        )
    right.axhline(result.options.get("reach", 0.8), color="#999999", linewidth=0.8, linestyle=":")
    right.set(
        xlabel="step",
        ylabel="amplitude / target",
        ylim=(0, max(1.3, min(2.0, float(amplitude.max())))),
    )
    right.legend(
        title="frequency", fontsize=7, title_fontsize=8, ncols=2, frameon=False, loc="lower right"
    )
    return figure


def norms(result: penchant.Result) -> Figure:
    """Spectral norm of every layer and the loss over training."""
    steps, values, loss = (result.arrays[name] for name in ("steps", "spectral-norms", "loss"))
    figure = Figure(figsize=(9.5, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for layer in range(values.shape[1]):
        left.plot(
            steps,
            values[:, layer],
            label=f"layer {layer + 1}" if values.shape[1] <= 10 else None,
            linewidth=1.2,
        )
    left.set(xlabel="step", ylabel="spectral norm")
    if values.shape[1] <= 10:
        left.set_ylim(0, 1.3 * float(values.max()))  # room for the legend above the curves
        left.legend(fontsize=8, frameon=False, ncols=3, loc="upper center")
    error = result.arrays["loss-stderr"]
    right.fill_between(
        steps, np.maximum(loss - error, 1e-12), loss + error, color=BLUE, alpha=0.25, linewidth=0
    )
    right.semilogy(steps, np.maximum(loss, 1e-12), color=BLUE)
    right.set(xlabel="step", ylabel="mean squared error")
    return figure


def predictions(result: penchant.Result) -> Figure:
    """The learnt function over the target at four steps of the first draw."""
    steps, values, target = (result.arrays[name] for name in ("steps", "prediction", "target"))
    rows = (
        np.unique(np.round(np.geomspace(1, len(steps) - 1, 4)).astype(int))
        if len(steps) > 1
        else np.array([0])
    )
    figure = Figure(figsize=(9.5, 2.4 * ((len(rows) + 1) // 2) + 0.4), layout="constrained")
    axes = figure.subplots(
        (len(rows) + 1) // 2, min(2, len(rows)), squeeze=False, sharex=True, sharey=True
    )
    places = np.arange(len(target)) / len(target)
    for panel, row in zip(axes.flat, rows):
        panel.plot(places, target, color=BLUE, linewidth=1.0, label="target")
        panel.plot(places, values[row], color="#2a9d5c", linewidth=1.2, label="network")
        panel.set_title(f"step {steps[row]:g}", fontsize=9)
    for panel in axes[-1]:
        panel.set_xlabel("z")
    axes[0, 0].legend(frameon=False, fontsize=8, loc="upper right")
    return figure


def draw(result: penchant.Result) -> dict[str, Figure]:
    """The figures, in the order in which they should be seen."""
    return {
        "amplitude": amplitudes(result),
        "norms": norms(result),
        "prediction": predictions(result),
    }
