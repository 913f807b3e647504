"""Figures of the probe `curvature-proxies`."""

from collections.abc import Sequence

import numpy as np
import penchant
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import (
    BLUE,
    FAINT,
    GREEN,
    ORANGE,
    RED,
    TEAL,
    VIOLET,
    captioned,
    log_ticks,
)

SHOWN = 8  # layers in a figure of spectra, evenly spread
COLOURS = {"exact": BLUE, "kfac": ORANGE, "cfac": GREEN, "empirical-fisher": VIOLET}
OTHERS = (RED, TEAL)
LABELS = {
    "exact": "Gauss-Newton",
    "kfac": "KFAC",
    "cfac": "CFAC",
    "empirical-fisher": "empirical Fisher",
}
MARKERS = "o^x+sd"
WITHOUT_EXACT = "The exact Gauss-Newton matrix did not fit into memory, so nothing is compared."


def draw(result: penchant.Result) -> dict[str, Figure]:
    """All figures the result has arrays for."""
    figures = {
        "spectra-last": spectra(result, last=True),
        "spectra": spectra(result),
        "leading": leading(result),
    }
    # there are no errors where the exact matrix was too large
    if _has_exact(result):
        figures = {"errors": errors(result), **figures}
    if "cosine-class" in result.arrays:
        figures["cosines"] = cosines(result)
    return figures


def _proxies(result: penchant.Result) -> list[str]:
    prefix = "layer-shift-"  # which neither the exact matrix nor errors have
    proxies = []
    for name in result.tables:
        if name.startswith(prefix):
            proxies.append(name.removeprefix(prefix))
    return proxies


def _has_exact(result: penchant.Result) -> bool:
    """Whether the exact matrix did fit in memory, in some layer."""
    traces = result.arrays["layer-trace-exact"]
    return bool(np.isfinite(traces).any())


def _layers(result: penchant.Result) -> list[str]:
    return [str(name) for name in result.tables["layer-parameters"].axes["layer"]]


def _colour(result: penchant.Result, name: str) -> str:
    if name in COLOURS:
        return COLOURS[name]

    # estimators of others share what colours are left
    unknown = [each for each in _proxies(result) if each not in COLOURS]
    number = unknown.index(name)
    return OTHERS[number % len(OTHERS)]


def _label(name: str) -> str:
    return LABELS.get(name, name)


def _evenly(count: int) -> list[int]:
    """As many numbers below a count as a figure shows, evenly spread."""
    shown = min(SHOWN, count)
    positions = np.linspace(0, count - 1, shown)
    numbers = {int(round(position)) for position in positions}
    return sorted(numbers)


def spectra(result: penchant.Result, *, last: bool = False) -> Figure:
    """One row per layer and one column per proxy, as in figures 11 (last layer) and 12."""
    proxies, layers = _proxies(result), _layers(result)

    # all layers would not fit: some, evenly spread
    rows = [len(layers) - 1] if last else _evenly(len(layers))
    a_row = 3.2 if last else 1.75
    height = a_row * len(rows) + 1.1
    width = 3.4 * len(proxies) + 0.6
    figure = Figure(figsize=(width, height))
    axes = figure.subplots(len(rows), len(proxies), squeeze=False, sharex="row", sharey="row")
    for row, layer in zip(axes, rows):
        for panel, name in zip(row, proxies):
            _two_spectra(panel, result, layer, name)
        row[0].set_ylabel(f"layer {layers[layer]}\ndensity", fontsize=9)
        log_ticks(*row)

    # names over the columns, the axis under them
    for panel, name in zip(axes[0], proxies):
        panel.set_title(_label(name), fontsize=10)
        panel.legend(fontsize=7, loc="upper right")
    for panel in axes[-1]:
        panel.set_xlabel("log10 of the eigenvalue")
        panel.tick_params(labelbottom=True)
    where = "in the last layer" if last else "layer by layer"
    if not _has_exact(result):
        return captioned(figure, WITHOUT_EXACT, title=f"Spectra of proxies, {where}")
    return captioned(
        figure,
        "Spectra of the proxies and of the Gauss-Newton matrix.",
        title=f"Spectra of proxies over the exact one, {where}",
    )


def _two_spectra(panel: Axes, result: penchant.Result, layer: int, name: str) -> None:
    grid = result.arrays["spectrum-grid"][layer]
    smallest = 1 / result.arrays["layer-parameters"][layer]
    floor = 0.01 * smallest
    for each in ("exact", name):
        spectrum = result.arrays[f"spectrum-{each}"][layer]
        if np.isnan(spectrum).all():
            continue
        colour = _colour(result, each)
        density = np.maximum(spectrum, floor)
        panel.semilogy(grid, density, color=colour, linewidth=1, label=_label(each))
        panel.fill_between(grid, floor, density, color=colour, alpha=0.2, linewidth=0)

    # panels of a row have one scale
    every = ("exact", *_proxies(result))
    highest = np.nanmax([result.arrays[f"spectrum-{each}"][layer] for each in every])
    # a single eigenvalue, a decade wide, would be at `smallest`
    panel.set_ylim(0.1 * smallest, 30 * highest)
    panel.tick_params(labelsize=8)


def errors(result: penchant.Result) -> Figure:
    """Relative error, trace and shared eigenvectors by depth, with nulls."""
    layers = _layers(result)
    figure = Figure(figsize=(11.5, 4.0))
    left, middle, right = figure.subplots(1, 3)
    tables = result.tables
    exact, random = tables["layer-trace-exact"], tables["layer-overlap-null"]
    for name in _proxies(result):
        _by_depth(left, result, name, tables[f"layer-error-{name}"])
        ratio = tables[f"layer-trace-{name}"].values / exact.values
        _by_depth(middle, result, name, penchant.Table(ratio, exact.axes))
        _by_depth(right, result, name, tables[f"layer-overlap-{name}"])

    # what each would be for a perfect proxy, and for none
    middle.axhline(1.0, color=_colour(result, "exact"), linewidth=0.8)
    right.plot(random.values, ":", color=FAINT, label="random vectors")
    left.set(ylabel="relative error")
    left.set_ylim(bottom=0)
    middle.set(ylabel="trace / exact trace", yscale="log")
    right.set(ylabel="overlap of the first C eigenvectors", ylim=(0, 1.05))
    for panel in (left, middle, right):
        panel.set_xlabel("layer")
        _name_layers(panel, layers)
    log_ticks(middle)
    _legend_below(figure, (left, right))
    return captioned(
        figure,
        "A perfect proxy has relative error 0, trace ratio 1 and overlap 1. Dotted: permuted "
        "classes, "
        "or random vectors.",
        title="Accuracy of the proxies by layer",
    )


def _by_depth(panel: Axes, result: penchant.Result, name: str, table: penchant.Table) -> None:
    """One proxy's numbers, layer by layer, with two standard errors where there are any.

    Dotted where the proxy uses classes: the same with classes permuted.
    """
    positions, colour = np.arange(len(table.values)), _colour(result, name)
    errors = None if table.stderr is None else 2 * np.asarray(table.stderr)
    panel.errorbar(
        positions, table.values, errors, fmt="o-", color=colour, markersize=4, label=_label(name)
    )
    if table.null is not None:
        label = f"{_label(name)}, classes permuted"
        null = np.asarray(table.null)
        panel.errorbar(positions, null, table.null_stderr, fmt=":", color=colour, label=label)


def _legend_below(figure: Figure, panels: Sequence[Axes]) -> None:
    """One legend for several panels, each label once."""
    handles: dict[str, Artist] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=5, fontsize=8
    )


def _name_layers(panel: Axes, layers: Sequence[str]) -> None:
    # long names are turned, so that they do not overlap
    long = max(map(len, layers)) > 3 or len(layers) > 12
    panel.set_xticks(
        np.arange(len(layers)),
        layers,
        rotation=60 if long else 0,
        ha="right" if long else "center",
        fontsize=8,
    )


def leading(result: penchant.Result) -> Figure:
    """Leading eigenvalues by rank: where the outliers are."""
    layers = _layers(result)
    shown = _evenly(len(layers))
    columns = min(4, len(shown))
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(2.9 * columns + 0.4, 2.5 * rows + 1.2))
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel in axes[len(shown) :]:
        panel.set_axis_off()
    for panel, layer in zip(axes, shown):
        _ranked(panel, result, layer)
        count = result.arrays["layer-outliers-exact"][layer]
        title = f"layer {layers[layer]}"
        if np.isfinite(count):
            panel.axvline(count + 0.5, color=FAINT, linewidth=0.8, linestyle=":")
            title += f": gap after {count:.0f}"
        panel.set_title(title, fontsize=9)
        panel.set_xlabel("rank")
        log_ticks(panel)
    axes[0].set_ylabel("eigenvalue")
    _legend_below(figure, [axes[0]])
    if not _has_exact(result):
        return captioned(figure, WITHOUT_EXACT, title="Leading eigenvalues of proxies")
    return captioned(
        figure,
        "Dotted: the largest gap of the exact spectrum, searched after 2 to 2 C eigenvalues.",
        title="Leading eigenvalues of Gauss-Newton and of its proxies",
    )


def _ranked(panel: Axes, result: penchant.Result, layer: int) -> None:
    for name, marker in zip(("exact", *_proxies(result)), MARKERS):
        values = result.arrays[f"leading-{name}"][layer]
        if np.isnan(values).all():
            continue

        # a logarithmic axis cannot show zeros
        shown = values > 1e-14 * values.max()
        ranks = np.arange(1, len(values) + 1)[shown]
        colour = _colour(result, name)
        panel.semilogy(ranks, values[shown], marker, color=colour, markersize=4, label=_label(name))


def cosines(result: penchant.Result) -> Figure:
    """Cosines of class means with products of means by depth, beside those of another class."""
    layers = _layers(result)
    figure = Figure(figsize=(8.4, 4.0))
    axes = figure.subplots(1, 2, sharey=True)
    titles = {"class": "cos(g_c, h_c x delta_c)", "cross": "cos(g_cc', h_c x delta_cc')"}
    for panel, (kind, title) in zip(axes, titles.items()):
        _cosines_by_depth(panel, result, f"cosine-{kind}", BLUE, "o-", "own class")
        _cosines_by_depth(panel, result, f"cosine-{kind}-null", FAINT, "s:", "another class (null)")
        panel.set_title(title, fontsize=10)
        panel.set(xlabel="layer", ylim=(-0.05, 1.05))
        _name_layers(panel, layers)
    axes[0].set_ylabel("cosine")
    _legend_below(figure, axes[:1])
    return captioned(
        figure,
        "A cosine of 1: the class mean of gradients is the product of class means; "
        "median and 5 to 95 % over classes.",
        title="Are class means products of means?",
    )


def _cosines_by_depth(
    panel: Axes, result: penchant.Result, name: str, colour: str, style: str, label: str
) -> None:
    """Median over classes, or pairs of them, with the middle 90 %."""
    cosines = result.arrays[name]
    values = cosines.reshape(len(cosines), -1)

    # a class with itself is not a pair
    if cosines.ndim == 3:
        same = np.eye(cosines.shape[1], dtype=bool)
        values = values[:, ~same.ravel()]
    low, middle, high = np.nanpercentile(values, (5, 50, 95), axis=1)
    positions = np.arange(len(cosines))
    panel.plot(positions, middle, style, color=colour, markersize=4, label=label)
    panel.fill_between(positions, low, high, color=colour, alpha=0.2, linewidth=0)
