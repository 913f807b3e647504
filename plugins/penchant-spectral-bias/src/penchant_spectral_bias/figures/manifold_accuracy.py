"""Figures of the probe `manifold-accuracy`."""

from __future__ import annotations

import matplotlib
import numpy as np
import penchant
from matplotlib.figure import Figure

from penchant_spectral_bias.figures.frequency_learning import BLUE, heat_map

SHOWN = 6


def draw(result: penchant.Result) -> dict[str, Figure]:
    """The figures, in the order in which they should be seen."""
    return {"accuracy": accuracy(result), "plane": plane(result), "radial-spectrum": radial(result)}


def accuracy(result: penchant.Result) -> Figure:
    """Training accuracy by frequency and petals: the network, then nearest neighbours."""
    frequencies, petals = result.arrays["frequencies"], result.arrays["petals"]
    maps = [("network", result.arrays["accuracy"])]
    if "neighbours" in result.arrays:
        names = [
            f"{count} neighbour{'s' if count > 1 else ''}" for count in result.arrays["neighbours"]
        ]
        maps += list(zip(names, result.arrays["neighbour-accuracy"]))[:SHOWN]
    figure = Figure(figsize=(1.6 + 2.5 * len(maps), 3.2), layout="constrained")
    axes = figure.subplots(1, len(maps), squeeze=False, sharey=True)[0]
    for panel, (name, values) in zip(axes, maps):
        drawn = heat_map(panel, values, frequencies, petals, vmin=0.5, vmax=1)
        panel.set_title(name, fontsize=9)
        panel.set_xlabel("frequency")
    axes[0].set_ylabel("petals")
    figure.colorbar(drawn, ax=list(axes), label="training accuracy")
    return figure


def plane(result: penchant.Result) -> Figure:
    """The class and the confidence of each network in the plane, with the training points."""
    axis, logits = result.arrays["plane-axis"], result.arrays["plane"][:4]
    points, labels = result.arrays["plane-points"], result.arrays["plane-labels"]
    figure = Figure(figsize=(4.2 * len(logits), 4.2), layout="constrained")
    for panel, values in zip(figure.subplots(1, len(logits), squeeze=False)[0], logits):
        panel.contourf(
            axis,
            axis,
            (values > 0).astype(float),
            levels=[-0.5, 0.5, 1.5],
            colors=["#c5d8ea", "#f3d3c4"],
        )
        panel.contour(axis, axis, np.abs(values), levels=6, colors="#666666", linewidths=0.4)
        panel.scatter(*points.T, c=labels, cmap="coolwarm", s=6, zorder=3)
        panel.set(aspect="equal", xlabel="x", ylabel="y")
    return figure


def radial(result: penchant.Result) -> Figure:
    """Radial spectra of the probability of class 1: network and nearest neighbours."""
    frequency, spectra = result.arrays["radial-frequency"], result.arrays["radial-spectrum"]
    figure = Figure(figsize=(5.6, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.loglog(frequency, spectra[0], color=BLUE, linewidth=2, label="network")
    counts = result.arrays.get("neighbours", np.zeros(0))
    for number, (count, values) in enumerate(zip(counts, spectra[1:])):
        shade = matplotlib.colormaps["Oranges"](0.9 - 0.5 * number / max(1, len(counts)))
        axes.loglog(
            frequency,
            values,
            color=shade,
            linewidth=1.2,
            label=f"{count} neighbour{'s' if count > 1 else ''}",
        )
    axes.set(xlabel="radial frequency (cycles per unit)", ylabel="zeta")
    axes.legend(frameon=False, fontsize=8)
    return figure
