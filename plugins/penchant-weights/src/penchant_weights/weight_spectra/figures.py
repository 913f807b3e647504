"""Figures of the probe `weight-spectra`: distance from randomness and tails by layer, spectra."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, GREY, ORANGE, captioned, log_ticks

_PANELS = 12  # spectra that are drawn at most
_NAMES = 30  # names on an axis at most
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
    names = result.labels["layers"]
    positions = np.arange(len(names))
    figure = Figure(figsize=(max(10.0, 0.3 * len(names) + 6), 4.2), layout="constrained")
    panels = figure.subplots(1, 3)
    titles = {"mp-distances": "distance from Marchenko-Pastur", "spikes-by-layer": "spikes"}
    label = "difference" if _is_difference(result) else "weights"
    for panel, (name, title) in zip(panels, titles.items()):
        panel.plot(positions, result.arrays[name], "o-", color=BLUE, markersize=4, label=label)
        null = result.arrays[f"{name}-null"]
        panel.plot(positions, null, "--", color=ORANGE, label=_null(result))
        panel.set_title(title, fontsize=9)
        panel.set_ylabel("distance" if name == "mp-distances" else "eigenvalues", fontsize=8)
    panels[0].legend(frameon=False, fontsize=7)
    _exponents(panels[2], result, positions)
    _name_layers(panels, names)
    caption = (
        f"Every layer against {_null(result)}; exponents of the tails that pass "
        "the test of a power law against an exponential, with standard errors."
    )
    title = "Spectra of differences by layer" if _is_difference(result) else _BY_LAYER
    return captioned(figure, caption, title=title)


def _name_layers(panels: Iterable[Axes], names: Sequence[str]) -> None:
    """Names of layers, as many as there is space for."""
    every = -(-len(names) // _NAMES)
    positions = np.arange(len(names))
    for panel in panels:
        panel.set_xticks(positions[::every], names[::every], rotation=90, fontsize=6)
        panel.set_xlabel("layer", fontsize=8)


def _beside_base(result: penchant.Result) -> Figure:
    """How large the difference is beside its base, and how much of it lies where the base does."""
    names = result.labels["layers"]
    positions = np.arange(len(names))
    figure = Figure(figsize=(max(8.0, 0.3 * len(names) + 5), 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    titles = {
        "relative-changes": "largest singular value, of the base's",
        "base-overlaps": "share between leading vectors of the base",
    }
    for panel, (name, title) in zip(panels, titles.items()):
        panel.plot(
            positions, result.arrays[name], "o-", color=BLUE, markersize=4, label="difference"
        )
        null = result.arrays[f"{name}-null"]
        panel.plot(positions, null, "--", color=ORANGE, label=_null(result))
        panel.set_title(title, fontsize=9)
        panel.set_yscale("log")
        log_ticks(panel)
    panels[0].set_ylabel("ratio", fontsize=8)
    panels[1].set_ylabel("share", fontsize=8)
    panels[0].legend(frameon=False, fontsize=7)
    _name_layers(panels, names)
    caption = f"The difference of each layer beside its base, against {_null(result)}."
    return captioned(figure, caption, title="What changed, beside the base")


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
