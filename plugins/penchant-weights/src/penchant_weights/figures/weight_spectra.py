"""Figures of the probe `weight-spectra`: distance from randomness and tails by layer, spectra."""

from __future__ import annotations

import math

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, GREY, ORANGE, captioned, log_ticks

_PANELS = 12  # spectra that are drawn at most
_NAMES = 30  # names on an axis at most


def headline(result: penchant.Result) -> str | None:
    """Whether weights differ from their entries in random order, and whether tails are heavy."""
    distance = result.quantities["mp-distance"]
    if not distance.is_significant:
        return "Spectra of the weights are those of the same entries in random order."
    text = (
        f"Spectra are {distance.value:.2g} from the Marchenko-Pastur law, "
        f"{distance.null:.2g} with entries in random order"
    )
    share = result.quantities["power-law-layers"].value
    if "tail-exponent" not in result.quantities:
        return f"{text}; no tail is a power law."
    exponent = result.quantities["tail-exponent"]
    return f"{text}; {share:.0%} of the layers have a power-law tail, with exponent {exponent}."


def draw(result: penchant.Result) -> dict[str, Figure]:
    """By layer, and the spectra themselves."""
    return {"layers": _layers(result), "spectra": _spectra(result)}


def _layers(result: penchant.Result) -> Figure:
    """Distance from Marchenko and Pastur, spikes, and exponents, by layer."""
    names = result.labels["layers"]
    positions = np.arange(len(names))
    figure = Figure(figsize=(max(10.0, 0.3 * len(names) + 6), 4.2), layout="constrained")
    panels = figure.subplots(1, 3)
    titles = {"mp-distances": "distance from Marchenko-Pastur", "spikes-by-layer": "spikes"}
    for panel, (name, title) in zip(panels, titles.items()):
        panel.plot(positions, result.arrays[name], "o-", color=BLUE, markersize=4, label="weights")
        null = result.arrays[f"{name}-null"]
        panel.plot(positions, null, "--", color=ORANGE, label="entries in random order")
        panel.set_title(title, fontsize=9)
        panel.set_ylabel("distance" if name == "mp-distances" else "eigenvalues", fontsize=8)
    panels[0].legend(frameon=False, fontsize=7)
    _exponents(panels[2], result, positions)
    every = -(-len(names) // _NAMES)
    for panel in panels:
        panel.set_xticks(positions[::every], names[::every], rotation=90, fontsize=6)
        panel.set_xlabel("layer", fontsize=8)
    caption = (
        "Every layer against the same entries in random order; exponents of the tails that pass "
        "the test of a power law against an exponential, with standard errors."
    )
    return captioned(figure, caption, title="Spectra of weights by layer")


def _exponents(panel: Axes, result: penchant.Result, positions: np.ndarray) -> None:
    """Exponents of the tails that are power laws."""
    exponents = result.arrays["tail-exponents"]
    errors = result.arrays["tail-exponents-stderr"]
    known = np.isfinite(exponents)
    panel.set_title("tail exponent", fontsize=9)
    panel.set_ylabel("exponent", fontsize=8)
    panel.set_xlim(-0.5, len(positions) - 0.5)
    if not known.any():
        panel.text(0.5, 0.5, "no power law", ha="center", transform=panel.transAxes, fontsize=9)
        return
    panel.errorbar(
        positions[known], exponents[known], errors[known], fmt="o", color=BLUE, capsize=2
    )


def _spectra(result: penchant.Result) -> Figure:
    """Sorted singular values of the first layers, with the edge of Marchenko and Pastur."""
    names = result.labels["layers"][:_PANELS]
    columns = min(4, len(names))
    rows = math.ceil(len(names) / columns)
    figure = Figure(figsize=(2.7 * columns + 0.6, 2.3 * rows + 0.7), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for number, (panel, name) in enumerate(zip(panels, names)):
        shape = result.arrays["shapes"][number]
        values = result.arrays["singular-values"][number][: shape.min()]
        panel.loglog(np.arange(1, len(values) + 1), values, color=BLUE)
        panel.axhline(result.arrays["edges"][number], color=ORANGE, linestyle="--")
        longer, begin = shape.max(), result.arrays["tail-windows"][number]
        if np.isfinite(result.arrays["tail-exponents"][number]):
            panel.axhline(np.sqrt(begin * longer), color=GREY, linestyle=":")
        panel.set_title(f"{name} ({shape[0]} x {shape[1]})", fontsize=7)
        panel.set_xlabel("index", fontsize=7)
        panel.set_ylabel("singular value", fontsize=7)
        panel.tick_params(labelsize=7)
        log_ticks(panel)
    for unused in panels[len(names) :]:
        unused.set_visible(False)
    caption = (
        "Singular values of each layer; dashed: the edge of Marchenko and Pastur for entries of "
        "this variance; dotted: where a power-law tail begins."
    )
    return captioned(figure, caption, title="Singular values")
