"""Figures of the probe `cross-class`."""

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import (
    BLUE,
    BROWN,
    FAINT,
    GREEN,
    ORANGE,
    RED,
    TEAL,
    captioned,
    log_ticks,
    palette,
)

DENSITIES = {
    "total": "G",
    "without-mean": "without the global mean",
    "without-class": "without G_class",
    "without-cross": "without G_cross",
    "without-diagonal": "without G_{c=c'}",
    "without-within": "without G_within",
}
COMPONENTS = (
    ("class", ORANGE, "G_class"),
    ("cross", GREEN, "G_cross"),
    ("diagonal", TEAL, "G_{c=c'}"),
)
_DECADES = 1e-8  # of its maximum: where a density is cut off


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Leading eigenvalues, log spectra with knockouts (figure 5), components over panels (6)."""
    figures = {"eigenvalues": eigenvalues(result), "log-spectra": knockouts(result)}
    if "panel-steps" in result.arrays:
        figures["panels"] = panels(result)
    if result.tables:
        figures["modules"] = modules(result)
    return figures


def knockouts(result: penchant.Result) -> Figure:
    """Log spectra of G and of what is left of it, one under the other."""
    grid = result.arrays["density-grid"]
    shown = {
        component: title
        for component, title in DENSITIES.items()
        if f"density-{component}" in result.arrays
    }
    figure = Figure(figsize=(6.4, 1.5 * len(shown) + 1.2))
    axes = figure.subplots(len(shown), 1, sharex=True, sharey=True)

    # one scale for all panels: a bump that is gone is seen to be gone
    highest = max(result.arrays[f"density-{component}"].max() for component in shown)
    for panel, (component, title) in zip(axes, shown.items()):
        density = result.arrays[f"density-{component}"]
        floor = highest * _DECADES
        panel.semilogy(grid, np.maximum(density, floor), color=BLUE, linewidth=1.2)
        stderr = result.arrays.get(f"density-{component}-stderr")
        if stderr is not None:
            low = np.maximum(density - 2 * stderr, floor)
            panel.fill_between(grid, low, np.maximum(density + 2 * stderr, floor), alpha=0.3)
        panel.set(ylim=(floor, highest * 3), ylabel="density")
        panel.set_title(title, fontsize=9)
    log_ticks(*axes)
    axes[-1].set_xlabel(_log_label(result))
    return captioned(
        figure,
        "Densities of the log eigenvalues on one scale. Each title names the component removed.",
        title="Log spectrum of G, with components removed",
    )


def _log_label(result: penchant.Result) -> str:
    epsilon = result.options.get("epsilon", 1e-5)
    return f"log(eigenvalue + {epsilon:g})"


def eigenvalues(result: penchant.Result) -> Figure:
    """Leading eigenvalues of G beside those of its components."""
    figure = Figure(figsize=(6.8, 4.2))
    axes = figure.subplots()

    # all eigenvalues where they are known, as many as means could make
    spectrum = result.arrays.get("spectrum", result.arrays["top-eigenvalues"])
    classes = len(result.arrays["eigenvalues-class"])
    shown = min(len(spectrum), 2 * classes**2)
    positions = np.arange(1, shown + 1)
    axes.loglog(positions, spectrum[:shown], ".-", color=BLUE, linewidth=0.8, label="G")
    _mark_components(axes, result, smallest=spectrum[0] * 1e-12, last=shown)
    position = result.quantities["outliers"].value
    gap = f"largest gap: {position:.0f} (C = {classes})"
    axes.axvline(position + 0.5, color=FAINT, linestyle=":", label=gap)
    axes.set(xlabel="rank", ylabel="eigenvalue")
    log_ticks(axes)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return captioned(
        figure,
        f"The largest gap is after {position:.0f} eigenvalues; C = {classes}, "
        f"C (C - 1) = {classes * (classes - 1)}.",
        title="Eigenvalues of G and of its components",
    )


def modules(result: penchant.Result) -> Figure:
    """Traces of components and leading eigenvalues by module, and their densities."""
    traces = result.tables["trace-by-module"]
    names = [str(each) for each in traces.axes["module"]]
    figure = Figure(figsize=(11.4, 3.8), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    components = [("total", BLUE, "G"), *COMPONENTS, ("within", RED, "G_within")]
    width = 0.8 / len(components)
    for number, (component, colour, label) in enumerate(components):
        own = traces.at(component=component)
        positions = np.arange(len(names)) + (number - 2) * width
        errors = None if own.stderr is None else 2 * np.asarray(own.stderr)
        left.bar(positions, own.values, width, yerr=errors, color=colour, label=label)
        if own.null is not None:
            left.plot(positions, np.asarray(own.null), "_", color="black", markersize=6)
    left.set_xticks(np.arange(len(names)), names, rotation=30, ha="right", fontsize=8)
    left.set(ylabel="trace", yscale="log")
    left.legend(fontsize=7)
    top = result.tables["top-eigenvalues-by-module"]
    density = result.tables["density-by-module"]
    grid = np.array(density.axes["log-eigenvalue"])
    floor = density.values.max() * _DECADES
    for name, colour in zip(names, palette(len(names))):
        values = top.at(module=name).values
        middle.plot(np.arange(1, len(values) + 1), values, ".-", color=colour, label=name)
        shown = np.maximum(density.at(module=name).values, floor)
        right.semilogy(grid, shown, color=colour, linewidth=1.0, label=name)
    middle.set(xlabel="rank", ylabel="eigenvalue", yscale="log")
    middle.legend(fontsize=7)
    right.set(xlabel=_log_label(result), ylabel="density")
    return captioned(
        figure,
        "Left: traces of each module's diagonal block of G and of its components, with two "
        "standard errors; marks are those of permuted classes. Middle: leading eigenvalues of the "
        "blocks. Right: densities of their log eigenvalues.",
        title="Class structure by module",
    )


def _mark_components(axes: Axes, result: penchant.Result, *, smallest: float, last: int) -> None:
    """Eigenvalues of components above the smallest, and classes' bulks at the last rank."""
    for name, colour, label in COMPONENTS:
        values = result.arrays[f"eigenvalues-{name}"]
        values = values[values > smallest]
        positions = np.arange(1, len(values) + 1)
        axes.loglog(positions, values, "o", markersize=4, color=colour, label=label)

    # classes have a bulk each: marks at the right edge
    within = result.arrays["within-average"]
    axes.loglog(
        np.full(len(within), last), within, "_", markersize=10, color=RED, label="within-average"
    )


def panels(result: penchant.Result) -> Figure:
    """Log spectra with the eigenvalues of the means: steps downwards, sizes to the right."""
    sizes, steps = result.arrays["panel-sizes"], result.arrays["panel-steps"]
    samples = result.arrays["panel-samples"]

    # a column for each sample size, a row for each step
    columns = sorted(set(zip(sizes.tolist(), samples.tolist())))
    by_column: dict[tuple[float, int], list[int]] = {column: [] for column in columns}
    for number in np.argsort(steps, kind="stable"):
        by_column[(sizes[number].item(), samples[number].item())].append(number)
    depth = max(len(numbers) for numbers in by_column.values())
    width = min(3.0 * len(columns) + 0.8, 40)
    figure = Figure(figsize=(width, 2.0 * depth + 1.2))
    axes = figure.subplots(depth, len(columns), squeeze=False)
    for panel in axes.flat:
        panel.set_visible(False)
    for column, numbers in enumerate(by_column.values()):
        for row, number in enumerate(numbers):
            axes[row, column].set_visible(True)
            _panel(axes[row, column], result, number)
        # under the last one of each column, where the legend leaves room
        axes[len(numbers) - 1, column].set_xlabel(_log_label(result), fontsize=9)
    figure.supylabel("density", fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8)
    return captioned(
        figure,
        "Rows: training steps. Columns: training samples per class; points are "
        "eigenvalues of the means.",
        title="Components of G by training step and sample size",
    )


def _panel(axes: Axes, result: penchant.Result, number: int) -> None:
    """One log spectrum, and eigenvalues of its means in rows below it."""
    arrays = result.arrays
    grid, density = arrays["panel-grid"][number], arrays["panel-density"][number]
    epsilon = result.options.get("epsilon", 1e-5)
    floor = density.max() * _DECADES
    axes.semilogy(grid, np.maximum(density, floor), color=BLUE, linewidth=0.9, label="G")

    # eigenvalues of the means, in rows at the bottom
    classes = arrays["panel-top"].shape[1]
    means = arrays["panel-means"][number]
    groups = (
        (arrays["panel-top"][number], BROWN, "C leading of G"),
        (means[:classes], ORANGE, "class"),
        (means[classes:], GREEN, "cross-class"),
        (arrays["panel-within"][number], RED, "within-average"),
    )
    for height, (values, colour, label) in enumerate(groups):
        positions = np.log(values[values > 0] + epsilon)
        level = np.full(len(positions), floor * 10 ** (1 + 1.3 * height))
        axes.plot(positions, level, "o", markersize=3, color=colour, label=label)
    axes.set_ylim(floor, density.max() * 3)
    samples, step = int(arrays["panel-samples"][number]), int(arrays["panel-steps"][number])
    axes.set_title(f"{samples} samples, step {step}", fontsize=8)
    axes.tick_params(labelsize=7)
    log_ticks(axes)
