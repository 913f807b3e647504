"""Figures of the probe `exact-spectrum`."""

from __future__ import annotations

import penchant
from matplotlib.figure import Figure

from penchant_spectral_bias.figures.frequency_learning import BLUE, ORANGE

SHOWN = 6


def draw(result: penchant.Result) -> dict[str, Figure]:
    """The figures, in the order in which they should be seen."""
    return {"spectrum": exact_spectrum(result)}


def exact_spectrum(result: penchant.Result) -> Figure:
    """Spectrum and gradient spectrum with their powers; the share of high-frequency parameters."""
    frequency, spectrum = result.arrays["frequency"], result.arrays["spectrum"]
    both = "share" in result.arrays
    figure = Figure(figsize=(9.5 if both else 5.4, 3.6), layout="constrained")
    axes = figure.subplots(1, 2 if both else 1, squeeze=False)[0]
    axes[0].loglog(frequency, spectrum, color=BLUE, linewidth=1, label="spectrum")
    middle = len(frequency) // 2
    axes[0].loglog(
        frequency,
        spectrum[middle] * (frequency / frequency[middle]) ** -2,
        "--",
        color=BLUE,
        linewidth=0.8,
        label="k^-2",
    )
    if "gradient-norm" in result.arrays:
        places, norms = result.arrays["gradient-frequency"], result.arrays["gradient-norm"]
        axes[0].loglog(places, norms, "o-", color=ORANGE, markersize=3, label="parameter gradient")
        axes[0].loglog(
            places, norms[-1] * places[-1] / places, "--", color=ORANGE, linewidth=0.8, label="k^-1"
        )
    axes[0].set(xlabel="cycles on the segment", ylabel="|f~|")
    axes[0].legend(frameon=False, fontsize=8)
    if both:
        share, error = result.arrays["share"], result.arrays["share-stderr"]
        axes[1].fill_between(
            frequency, share - error, share + error, color=BLUE, alpha=0.25, linewidth=0
        )
        axes[1].semilogx(frequency, share, color=BLUE)
        axes[1].set(
            xlabel="cut-off (cycles)",
            ylabel="share of parameters above epsilon",
            ylim=(-0.03, 1.05),
        )
    return figure
