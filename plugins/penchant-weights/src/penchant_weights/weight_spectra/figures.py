"""Figures of the probe `weight-spectra`: distance from randomness and tails by layer, spectra."""

import math

import numpy as np
import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, GREY, ORANGE, captioned, log_ticks
from penchant_numerics.pictures.curves import Panel, panels

_PANELS = 12  # spectra that are drawn at most
_BY_LAYER = "Spectra of weights by layer"


def headline(result: penchant.Result) -> str | None:
    """Whether weights differ from their entries in random order, and whether tails are heavy."""
    distance = result.quantities["mp-distance"]
    what = "the differences" if _is_difference(result) else "the weights"
    if not distance.is_significant:
        return f"Spectra of {what} are those of {_null(result)}."
    text = (
        f"Spectra of {what} are {distance.value:.2g} from the Marchenko-Pastur law, "
        f"{distance.null:.2g} for {_null(result)}"
    )
    share = result.quantities["power-law-layers"].value
    if "tail-exponent" not in result.quantities:
        return f"{text}; no tail is a power law."
    exponent = result.quantities["tail-exponent"]
    return f"{text}; {share:.0%} of the layers have a power-law tail, with exponent {exponent}."


def _is_difference(result: penchant.Result) -> bool:
    return result.options.get("base") is not None


def _null(result: penchant.Result) -> str:
    if _is_difference(result):
        return "random directions of the same norm"
    return "the same entries in random order"


def draw(result: penchant.Result) -> dict[str, Figure]:
    """By layer, and the spectra themselves; of a difference also what it does to its base."""
    figures = {"layers": _layers(result), "spectra": _spectra(result)}
    if _is_difference(result):
        figures["base"] = _beside_base(result)
    return figures


def _layers(result: penchant.Result) -> Figure:
    """Distance from Marchenko and Pastur, spikes, and exponents, by layer."""
    tables = result.tables
    figure = panels(
        {
            "distance from Marchenko-Pastur": Panel(tables["mp-distances"], "distance"),
            "spikes": Panel(tables["spikes-by-layer"], "eigenvalues"),
            "tail exponent": Panel(tables["tail-exponents"], "exponent"),
        },
        x="layer",
    )
    if not np.isfinite(tables["tail-exponents"].values).any():
        exponents = figure.axes[-1]
        exponents.set_yticks([])
        exponents.text(0.5, 0.5, "no power law", ha="center", transform=exponents.transAxes)
    caption = (
        f"Every layer against {_null(result)} (dashed); exponents of the tails that pass "
        "the test of a power law against an exponential, with standard errors."
    )
    title = "Spectra of differences by layer" if _is_difference(result) else _BY_LAYER
    return captioned(figure, caption, title=title)


def _beside_base(result: penchant.Result) -> Figure:
    """How large the difference is beside its base, and how much of it lies where the base does."""
    changes, overlaps = result.tables["relative-changes"], result.tables["base-overlaps"]
    figure = panels(
        {
            "largest singular value, of the base's": Panel(changes, "ratio", yscale="log"),
            "share between leading vectors of the base": Panel(overlaps, "share", yscale="log"),
        },
        x="layer",
    )
    caption = f"The difference of each layer beside its base, against {_null(result)} (dashed)."
    return captioned(figure, caption, title="What changed, beside the base")


def _spectra(result: penchant.Result) -> Figure:
    """Sorted singular values of the first layers, with the edge of Marchenko and Pastur."""
    edges, exponents = result.tables["edges"], result.tables["tail-exponents"]
    names = edges.axes["layer"][:_PANELS]
    columns = min(4, len(names))
    rows = math.ceil(len(names) / columns)
    figure = Figure(figsize=(2.7 * columns + 0.6, 2.3 * rows + 0.7), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for number, (panel, name) in enumerate(zip(panels, names)):
        shape = result.arrays["shapes"][number]
        values = result.arrays["singular-values"][number][: shape.min()]
        panel.loglog(np.arange(1, len(values) + 1), values, color=BLUE)
        panel.axhline(edges.values[number], color=ORANGE, linestyle="--")
        longer, begin = shape.max(), result.tables["tail-windows"].values[number]
        if np.isfinite(exponents.values[number]):
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
