"""Figures of the other probes on curves, and of the exact spectrum, drawn from stored results."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import penchant
from matplotlib.figure import Figure

from penchant_spectral_bias.figures_learning import BLUE, GREY, ORANGE, heat_map

SHOWN = 6


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


def peak_spectra(result: penchant.Result) -> Figure:
    """Spectrum of the learnt function over training, one panel a clip."""
    spectrum, points = result.arrays["spectrum"], result.arrays["prediction"].shape[-1]
    return _panels(
        result,
        spectrum,
        result.arrays["frequencies"],
        "frequency",
        "|DFT| / N",
        vmin=0,
        vmax=1.2 / points,
    )


def peak_predictions(result: penchant.Result) -> Figure:
    """The learnt function over training, one panel a clip."""
    values = result.arrays["prediction"]
    places = np.round(np.arange(values.shape[-1]) / values.shape[-1], 2)
    return _panels(
        result,
        values,
        places,
        "z",
        "prediction",
        vmin=min(0.0, float(values.min())),
        vmax=max(0.1, float(values.max())),
    )


def _panels(
    result: penchant.Result, values: Any, columns: Any, xlabel: str, label: str, **limits: Any
) -> Figure:
    clips, steps = result.arrays["weight-clips"], result.arrays["steps"]
    figure = Figure(figsize=(1.4 + 2.9 * len(clips), 3.3), layout="constrained")
    axes = figure.subplots(1, len(clips), squeeze=False, sharey=True)[0]
    for panel, clip, each in zip(axes, clips, values):
        drawn = heat_map(panel, each, columns, steps, **limits)
        panel.set_title(f"clip {clip:g}" if clip else "no clip", fontsize=9)
        panel.set_xlabel(xlabel)
        panel.tick_params(axis="x", labelsize=7)
    axes[0].set_ylabel("step")
    figure.colorbar(drawn, ax=list(axes), label=label)
    return figure


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
