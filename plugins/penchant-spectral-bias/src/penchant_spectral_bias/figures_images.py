"""Figures of the probes on datasets, drawn from stored results."""

from __future__ import annotations

import matplotlib
import numpy as np
import penchant
from matplotlib.figure import Figure

from penchant_spectral_bias.figures_learning import BLUE, GREY, ORANGE, heat_map


def noise_curves(result: penchant.Result, name: str) -> Figure:
    """Loss over training for every frequency, one panel an amplitude; without noise in grey."""
    steps, values, error = (
        result.arrays["steps"],
        result.arrays[name],
        result.arrays[f"{name}-stderr"],
    )
    frequencies, amplitudes = result.arrays["frequencies"], result.arrays["amplitudes"]
    figure = Figure(figsize=(1.2 + 3.8 * min(len(amplitudes), 4), 3.5), layout="constrained")
    axes = figure.subplots(1, len(amplitudes), squeeze=False, sharey=True)[0]
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, len(frequencies)))
    for panel, amplitude, curves, errors in zip(axes, amplitudes, values, error):
        for colour, frequency, curve, each in zip(colours, frequencies, curves, errors):
            panel.fill_between(
                steps, curve - each, curve + each, color=colour, alpha=0.2, linewidth=0
            )
            panel.plot(steps, curve, color=colour, label=f"{frequency:g} cycles")
        panel.plot(steps, result.arrays[f"clean-{name}"], "--", color=GREY, label="no noise")
        panel.set(xlabel="step", yscale="log")
        panel.set_title(f"amplitude {amplitude:g}", fontsize=9)
    axes[0].set_ylabel(f"{name} loss")
    axes[-1].legend(frameon=False, fontsize=8)
    return figure


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


def manifold_losses(result: penchant.Result) -> Figure:
    """Loss over training on the images' manifold and on the plane."""
    steps = result.arrays["steps"]
    figure = Figure(figsize=(5.6, 3.5), layout="constrained")
    axes = figure.subplots()
    for name, colour, label in (
        ("manifold-loss", BLUE, "reconstructed images"),
        ("plane-loss", "#2a9d5c", "plane"),
    ):
        values, error = result.arrays[name], result.arrays[f"{name}-stderr"]
        axes.fill_between(
            steps,
            np.maximum(values - error, 1e-12),
            values + error,
            color=colour,
            alpha=0.2,
            linewidth=0,
        )
        axes.semilogy(steps, values, color=colour, label=label)
    axes.axhline(1 / 12, color=GREY, linestyle=":", linewidth=1, label="variance of the targets")
    axes.set(xlabel="step", ylabel="mean squared error")
    axes.legend(frameon=False, fontsize=8)
    return figure
