"""Figures of the probe `target-noise`."""

from __future__ import annotations

import matplotlib
import numpy as np
import penchant
from matplotlib.figure import Figure

from penchant_spectral_bias.figures.frequency_learning import GREY

SHOWN = 6


def draw(result: penchant.Result) -> dict[str, Figure]:
    """The figures, in the order in which they should be seen."""
    return {
        "validation": noise_curves(result, "validation"),
        "training": noise_curves(result, "training"),
    }


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
