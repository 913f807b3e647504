"""Figures of the probe `noise-on-manifold`."""

from __future__ import annotations

import numpy as np
import penchant
from matplotlib.figure import Figure

from penchant_spectral_bias.figures.frequency_learning import BLUE, GREY

SHOWN = 6


def draw(result: penchant.Result) -> dict[str, Figure]:
    """The figures, in the order in which they should be seen."""
    return {"loss": manifold_losses(result)}


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
