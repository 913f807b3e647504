"""Figures of the probe, drawn from stored results."""

from __future__ import annotations

from typing import Any

import numpy as np
import penchant
from matplotlib.figure import Figure

SHOWN = 8  # layers in a figure of spectra, evenly spread
COLORS = {"exact": "#2b5c8a", "kfac": "#d9822b", "cfac": "#c9a800", "empirical-fisher": "#7d5ba6"}
LABELS = {
    "exact": "Gauss-Newton",
    "kfac": "KFAC",
    "cfac": "CFAC",
    "empirical-fisher": "empirical Fisher",
}


def draw(result: penchant.Result) -> dict[str, Figure]:
    """All figures the result has arrays for."""
    drawn = {
        "spectra": spectra(result),
        "spectra-last": spectra(result, last=True),
        "errors": errors(result),
        "leading": leading(result),
    }
    if "cosine-class" in result.arrays:
        drawn["cosines"] = cosines(result)
    return drawn


def _proxies(result: penchant.Result) -> list[str]:
    prefix = "layer-overlap-"
    return [
        name.removeprefix(prefix)
        for name in result.arrays
        if name.startswith(prefix) and name != f"{prefix}null"
    ]


def _layers(result: penchant.Result) -> list[str]:
    return result.conventions["layers"].split(", ")


def _color(name: str) -> str:
    return COLORS.get(name, "#4f8a5b")


def _label(name: str) -> str:
    return LABELS.get(name, name)


def _evenly(count: int) -> list[int]:
    return sorted({int(round(at)) for at in np.linspace(0, count - 1, min(SHOWN, count))})


def spectra(result: penchant.Result, *, last: bool = False) -> Figure:
    """A row a layer and a column a proxy: its spectrum over the exact one, as in figures 11 (last layer) and 12."""
    proxies, layers = _proxies(result), _layers(result)
    rows = [len(layers) - 1] if last else _evenly(len(layers))
    figure = Figure(
        figsize=(3.6 * len(proxies) + 0.6, (3.0 if last else 1.75) * len(rows) + 0.7),
        layout="constrained",
    )
    axes = figure.subplots(len(rows), len(proxies), squeeze=False, sharex="row", sharey="row")
    for row, layer in zip(axes, rows):
        for panel, name in zip(row, proxies):
            _two_spectra(panel, result, layer, name)
        row[0].set_ylabel(f"layer {layers[layer] or layer}\ndensity", fontsize=9)
    for panel, name in zip(axes[0], proxies):
        panel.set_title(_label(name), fontsize=10)
    for panel in axes[-1]:
        panel.set_xlabel("log10 of the eigenvalue")
        panel.tick_params(labelbottom=True)
    for panel in axes[0]:
        panel.legend(frameon=False, fontsize=7, loc="upper center")
    return figure


def _two_spectra(panel: Any, result: penchant.Result, layer: int, name: str) -> None:
    grid, smallest = (
        result.arrays["spectrum-grid"][layer],
        1 / result.arrays["layer-parameters"][layer],
    )
    for each, order in (("exact", 1), (name, 2)):
        density = result.arrays[f"spectrum-{each}"][layer]
        panel.semilogy(
            grid,
            np.maximum(density, 0.01 * smallest),
            color=_color(each),
            linewidth=1,
            zorder=order,
            label=_label(each),
        )
        panel.fill_between(
            grid,
            0.01 * smallest,
            np.maximum(density, 0.01 * smallest),
            color=_color(each),
            alpha=0.2,
            linewidth=0,
        )
    highest = max(
        result.arrays[f"spectrum-{each}"][layer].max() for each in ("exact", *_proxies(result))
    )
    panel.set_ylim(
        0.1 * smallest, 30 * highest
    )  # a single eigenvalue, a decade wide, would be at `smallest`
    panel.minorticks_off()
    panel.tick_params(labelsize=8)


def errors(result: penchant.Result) -> Figure:
    """Relative error and trace by depth, with the null of permuted classes, and what the leading eigenvectors share."""
    layers, proxies = _layers(result), _proxies(result)
    places = np.arange(len(layers))
    figure = Figure(figsize=(11.5, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for name in proxies:
        color = _color(name)
        left.plot(
            places,
            result.arrays[f"layer-error-{name}"],
            "o-",
            color=color,
            markersize=4,
            label=_label(name),
        )
        null = result.arrays.get(f"layer-error-{name}-null")
        if null is not None and name == "cfac":
            left.plot(places, null, ":", color=color, label=f"{_label(name)}, classes permuted")
        ratio = result.arrays[f"layer-trace-{name}"] / result.arrays["layer-trace-exact"]
        middle.plot(places, ratio, "o-", color=color, markersize=4, label=_label(name))
        right.plot(
            places,
            result.arrays[f"layer-overlap-{name}"],
            "o-",
            color=color,
            markersize=4,
            label=_label(name),
        )
    middle.axhline(1.0, color=_color("exact"), linewidth=0.8)
    right.plot(places, result.arrays["layer-overlap-null"], ":", color="#999999", label="random")
    left.set(ylabel="relative error")
    left.set_ylim(bottom=0)
    middle.set(ylabel="trace / exact trace", yscale="log")
    right.set(ylabel="overlap of the first C eigenvectors", ylim=(0, 1.05))
    for panel in (left, middle, right):
        panel.set_xlabel("layer")
        _name_layers(panel, layers)
    left.legend(frameon=False, fontsize=8)
    return figure


def _name_layers(panel: Any, layers: list[str]) -> None:
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
    figure = Figure(figsize=(2.9 * columns + 0.4, 2.5 * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel in axes[len(shown) :]:
        panel.set_axis_off()
    for panel, layer in zip(axes, shown):
        for name, marker in zip(("exact", *_proxies(result)), ("o", "^", "x", "+", "s", "d")):
            values = result.arrays[f"leading-{name}"][layer]
            kept = values > 1e-14 * values.max()
            panel.semilogy(
                np.arange(1, len(values) + 1)[kept],
                values[kept],
                marker,
                color=_color(name),
                markersize=4,
                label=_label(name),
            )
        count = result.arrays["layer-outliers-exact"][layer]
        panel.axvline(count + 0.5, color="#999999", linewidth=0.8, linestyle=":")
        panel.set_title(
            f"layer {layers[layer] or layer}: {count:.0f} before the largest gap", fontsize=9
        )
        panel.set_xlabel("rank")
    axes[0].set_ylabel("eigenvalue")
    axes[0].legend(frameon=False, fontsize=7)
    return figure


def cosines(result: penchant.Result) -> Figure:
    """Cosines of class means with products of means, by depth, beside those with the features of another class."""
    layers = _layers(result)
    places = np.arange(len(layers))
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    titles = {"class": "cos(g_c, h_c x delta_c)", "cross": "cos(g_cc', h_c x delta_cc')"}
    for panel, (kind, title) in zip(figure.subplots(1, 2, sharey=True), titles.items()):
        for name, color, style, label in (
            (f"cosine-{kind}", "#2b5c8a", "o-", "own class"),
            (f"cosine-{kind}-null", "#999999", "s:", "null"),
        ):
            values = result.arrays[name].reshape(len(layers), -1)
            if kind == "cross":
                side = result.arrays[name].shape[1]
                values = values[:, ~np.eye(side, dtype=bool).ravel()]
            low, mid, high = np.nanpercentile(values, (5, 50, 95), axis=1)
            panel.plot(
                places,
                mid,
                style,
                color=color,
                markersize=4,
                label=label if label == "own class" else "features of another class",
            )
            panel.fill_between(places, low, high, color=color, alpha=0.2, linewidth=0)
        panel.set_title(title, fontsize=10)
        panel.set(xlabel="layer", ylim=(-0.05, 1.05))
        _name_layers(panel, layers)
        panel.legend(frameon=False, fontsize=8, loc="lower right")
    return figure
