"""Figures of the probe `cross-class`."""

from __future__ import annotations

from typing import Any

import numpy as np
import penchant
from matplotlib.figure import Figure

from penchant_class_structure._log_axes import few_ticks

PARTS = {
    "total": "G",
    "without-mean": "without the global mean",
    "without-class": "without G_class",
    "without-cross": "without G_cross",
    "without-within": "without G_within",
}
CLASS, CROSS, DIAGONAL, WITHIN, TOP, BULK = (
    "#e0b000",
    "#4c9a4c",
    "#1f8a8a",
    "#c0392b",
    "#d9822b",
    "#2b5c8a",
)


def knockouts(result: penchant.Result) -> Figure:
    """Log spectra of G and of what is left of it, one under the other (figure 5)."""
    grid = result.arrays["density-grid"]
    figure = Figure(figsize=(6.4, 8.4), layout="constrained")
    panels = figure.subplots(len(PARTS), 1, sharex=True)
    for axes, (part, title) in zip(panels, PARTS.items()):
        density = result.arrays[f"density-{part}"]
        floor = density.max() * 1e-8
        axes.semilogy(grid, np.maximum(density, floor), color=BULK, linewidth=1.2)
        axes.set(ylim=(floor, density.max() * 3), ylabel="density")
        axes.set_title(title, fontsize=9)
    few_ticks(*panels)
    panels[-1].set_xlabel(f"log(eigenvalue + {result.options.get('epsilon', 1e-5):g})")
    return figure


def eigenvalues(result: penchant.Result) -> Figure:
    """Leading eigenvalues of G beside those of its components."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    spectrum = result.arrays.get("spectrum", result.arrays["top-eigenvalues"])
    classes = len(result.arrays["eigenvalues-class"])
    shown = min(len(spectrum), 2 * classes**2)
    axes.semilogy(
        np.arange(1, shown + 1),
        spectrum[:shown],
        color=BULK,
        marker=".",
        markersize=4,
        linewidth=0.8,
        label="G",
    )
    for name, color, label in (
        ("class", CLASS, "G_class"),
        ("cross", CROSS, "G_cross"),
        ("diagonal", DIAGONAL, "G_{c=c'}"),
    ):
        values = result.arrays[f"eigenvalues-{name}"]
        values = values[values > spectrum[0] * 1e-12]
        axes.semilogy(
            np.arange(1, len(values) + 1),
            values,
            color=color,
            linestyle="none",
            marker="o",
            markersize=4,
            label=label,
        )
    within = result.arrays["within-average"]
    axes.semilogy(
        np.full(len(within), shown),
        within,
        color=WITHIN,
        linestyle="none",
        marker="_",
        markersize=9,
        label="within-average",
    )
    position = result.quantities["outliers"].value
    axes.axvline(
        position + 0.5,
        color="#999999",
        linestyle=":",
        label=f"largest gap: {position:.0f} (C = {classes})",
    )
    axes.set(xlabel="index", ylabel="eigenvalue")
    few_ticks(axes)
    axes.legend(frameon=False, fontsize=8, loc="upper right")
    return figure


def panels(result: penchant.Result) -> Figure:
    """Log spectra with the eigenvalues of the means, steps downwards, sample sizes to the right (figure 6)."""
    sizes, steps = result.arrays["panel-size"], result.arrays["panel-step"]
    columns = sorted(set(sizes.tolist()), key=lambda size: size or np.inf)
    by_size = {
        size: [number for number in range(len(sizes)) if sizes[number] == size] for size in columns
    }
    depth = max(len(numbers) for numbers in by_size.values())
    figure = Figure(
        figsize=(min(3.4 * len(columns) + 0.8, 40), 1.9 * depth + 0.8), layout="constrained"
    )
    first = None
    for column, numbers in enumerate(by_size.values()):
        for row, number in enumerate(sorted(numbers, key=lambda each: steps[each])):
            axes = figure.add_subplot(depth, len(columns), row * len(columns) + column + 1)
            _panel(axes, result, number)
            first = first or axes
    assert first is not None
    figure.supxlabel(f"log(eigenvalue + {result.options.get('epsilon', 1e-5):g})", fontsize=9)
    handles, labels = first.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def _panel(axes: Any, result: penchant.Result, number: int) -> None:
    grid, density = result.arrays["panel-grid"][number], result.arrays["panel-density"][number]
    epsilon = result.options.get("epsilon", 1e-5)
    floor = density.max() * 1e-8
    axes.semilogy(grid, np.maximum(density, floor), color=BULK, linewidth=0.9, label="G")
    classes = result.arrays["panel-top"].shape[1]
    means = result.arrays["panel-means"][number]
    groups = [
        (result.arrays["panel-top"][number], TOP, "C leading of G"),
        (means[:classes], CLASS, "class"),
    ]
    groups += [
        (means[classes:], CROSS, "cross-class"),
        (result.arrays["panel-within"][number], WITHIN, "within-average"),
    ]
    for height, (values, color, label) in enumerate(groups):
        places = np.log(values[values > 0] + epsilon)
        level = np.full(len(places), floor * 10 ** (1 + 1.3 * height))
        axes.plot(
            places, level, linestyle="none", marker="o", markersize=3, color=color, label=label
        )
    axes.set_ylim(floor, density.max() * 3)
    samples = int(result.arrays["panel-samples"][number])
    axes.set_title(
        f"{samples} samples, step {int(result.arrays['panel-step'][number])}", fontsize=8
    )
    axes.tick_params(labelsize=7)
    few_ticks(axes)
