"""Figures of the probe `kernel-spectrum`."""

from __future__ import annotations

import matplotlib
import numpy as np
import penchant
from matplotlib.figure import Figure

from penchant_spectral_bias.figures.frequency_learning import BLUE, ORANGE, heat_map

SHOWN = 6


def draw(result: penchant.Result) -> dict[str, Figure]:
    """The figures, in the order in which they should be seen."""
    return {"spectrum": kernel_training(result), "eigenvectors": grid_spectrum(result)}


def kernel_training(result: penchant.Result) -> Figure:
    """Spectra at a few steps between the clean and the noisy target's, the learnt share of the target, and the losses."""
    steps, bins, spectrum = (result.arrays[name] for name in ("steps", "eigenvector", "spectrum"))
    figure = Figure(figsize=(12.5, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    rows = np.unique(np.linspace(0, len(steps) - 1, 5).astype(int))
    for row, colour in zip(rows, matplotlib.colormaps["viridis"](np.linspace(0, 0.85, len(rows)))):
        left.plot(bins, spectrum[row], color=colour, linewidth=1.2, label=f"step {steps[row]:g}")
    left.plot(
        bins,
        result.arrays["clean-spectrum"],
        "--",
        color="#222222",
        linewidth=1,
        label="clean target",
    )
    left.plot(
        bins,
        result.arrays["noised-spectrum"],
        ":",
        color="#222222",
        linewidth=1.4,
        label="noisy target",
    )
    left.set(xlabel="eigenvector", ylabel="coefficient (rms)", yscale="log")
    left.set_ylim(
        bottom=float(spectrum[spectrum > 0].min()) / 40
    )  # room for the legend below the curves
    left.legend(frameon=False, fontsize=7, ncols=2, loc="lower center")
    drawn = heat_map(middle, result.arrays["learnt-target"], np.round(bins), steps, vmin=0, vmax=1)
    middle.set(xlabel="eigenvector", ylabel="step")
    figure.colorbar(drawn, ax=middle, label="learnt share of the target")
    right.semilogy(steps, result.arrays["training"], color=ORANGE, label="noisy target (training)")
    right.semilogy(
        steps, result.arrays["validation"], color=BLUE, label="clean target (validation)"
    )
    right.set(xlabel="step", ylabel="mean squared error")
    right.legend(frameon=False, fontsize=8)
    return figure


def grid_spectrum(result: penchant.Result) -> Figure:
    """Spectrum of every eigenvector on equidistant points: the n-th has about n / 2 periods."""
    values = result.arrays["grid-spectrum"]
    figure = Figure(figsize=(4.8, 4.0), layout="constrained")
    axes = figure.subplots()
    drawn = axes.imshow(
        values,
        origin="lower",
        aspect="auto",
        cmap="viridis",
        extent=(-0.5, values.shape[1] - 0.5, 0.5, len(values) + 0.5),
    )
    axes.set(xlabel="frequency (cycles)", ylabel="eigenvector n")
    figure.colorbar(drawn, ax=axes, label="|DFT| / sqrt(N)")
    return figure
