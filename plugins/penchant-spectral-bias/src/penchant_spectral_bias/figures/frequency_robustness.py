"""Figures of the probe `frequency-robustness`."""

from __future__ import annotations

import matplotlib
import numpy as np
import penchant
from matplotlib.figure import Figure

from penchant_spectral_bias.figures.frequency_learning import GREY, heat_map

SHOWN = 6


def draw(result: penchant.Result) -> dict[str, Figure]:
    """The figures, in the order in which they should be seen."""
    return {"robustness": robustness(result)}


def robustness(result: penchant.Result) -> Figure:
    """Relative amplitude by perturbation and frequency, and as curves over the perturbation."""
    frequencies, deltas, relative = (
        result.arrays[name] for name in ("frequencies", "perturbation", "relative-amplitude")
    )
    error, floor = result.arrays["relative-amplitude-stderr"], result.arrays["noise-floor"]
    figure = Figure(figsize=(9.5, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    drawn = heat_map(left, relative, frequencies, deltas, vmin=0, vmax=1)
    left.set(xlabel="frequency", ylabel="perturbation")
    figure.colorbar(drawn, ax=left, label="amplitude / unperturbed")
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, len(frequencies)))
    for number, frequency in enumerate(frequencies):
        right.errorbar(
            deltas,
            relative[:, number],
            error[:, number],
            color=colours[number],
            capsize=2,
            label=f"{frequency:g}",
        )
    right.plot(deltas, floor.mean(1), ":", color=GREY, label="chance")
    right.set(xlabel="perturbation", ylabel="amplitude / unperturbed", ylim=(0, None))
    right.legend(title="frequency", fontsize=7, title_fontsize=8, ncols=2, frameon=False)
    return figure
