"""Figures of the probe `complexity`."""

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import GREY, captioned, log_ticks, palette
from penchant_numerics.statistics import p_text

MEASURES = (
    "complexity",
    "spectral-product",
    "spectral-stable-rank",
    "spectral-margin",
    "path-norm",
    "fisher-rao",
    "distance",
    "margin",
)
NEGATIVE = ("margin", "spectral-margin")


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Every measure against the gap, and along widths and label noise."""
    figures = {"correlation": _correlation(result)}
    axes = {"widths": "hidden units", "shares": "share of random labels"}
    for axis, label in axes.items():
        if len(result.arrays[axis]) > 1:
            figures[axis] = _along(result, axis, label)
    return figures


def _correlation(result: penchant.Result) -> Figure:
    """One panel per measure, one point per setting."""
    figure = Figure(figsize=(11, 5.4), layout="constrained")
    panels = figure.subplots(2, 4, sharey=True)
    gap = result.tables["gap"]
    shares = gap.axes["share"]
    colours = palette(len(shares), ordered=True)
    for panel, name in zip(panels.flat, MEASURES):
        for share, colour in zip(shares, colours):
            measure, gaps = result.tables[name].at(share=share), gap.at(share=share)
            panel.errorbar(
                measure.values,
                gaps.values,
                gaps.error,
                measure.error,
                fmt="o",
                color=colour,
                markersize=4,
                label=f"{100 * float(share):g} % random labels",
            )
        order = result.quantities[f"rank-correlation-{name}"]
        panel.set_title(f"rank correlation {order.value:.2f}, {p_text(order.p)}", fontsize=8)
        panel.set_xlabel(f"minus {name}" if name in NEGATIVE else name)
        if name not in (*NEGATIVE, "distance"):
            panel.set_xscale("log")
            log_ticks(panel)

    # one gap for all panels
    for panel in panels[:, 0]:
        panel.set_ylabel("generalisation gap")
    panels[0, 0].legend(fontsize=6)
    correlation = result.quantities["rank-correlation-complexity"]
    caption = (
        f"One point per setting; rank correlation of the path's complexity with it: {correlation}."
    )
    return captioned(figure, caption, title="Measures of complexity and the generalisation gap")


def _along(result: penchant.Result, axis: str, label: str) -> Figure:
    """Measures over their largest value along one axis, the mean over the other (figure 4.6)."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    panel = figure.subplots()
    other = 1 if axis == "widths" else 0
    positions = result.arrays[axis]
    positive = [name for name in MEASURES if name not in NEGATIVE]
    for name, colour in zip(positive, palette(len(positive))):
        _share_of_largest(panel, positions, result.arrays[name].mean(other), name, colour)

    # the gap has an axis of its own
    twin = panel.twinx()
    gaps = result.arrays["gap"].mean(other)
    twin.plot(positions, gaps, "s--", color=GREY, label="gap")
    twin.set_ylabel("generalisation gap (dashed)", color=GREY)
    panel.set_xlabel(label)
    panel.set_ylabel("measure over its largest value")
    if axis == "widths":
        panel.set_xscale("log", base=2)
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = f"Measures and the gap along the {label}."
    return captioned(figure, caption, title=f"Measures of complexity by {label}")


def _share_of_largest(
    panel: Axes, positions: np.ndarray, values: np.ndarray, name: str, colour: str
) -> None:
    """A measure on the scale of all others; the first is that of the thesis."""
    width = 2.4 if name == MEASURES[0] else 1.2
    panel.plot(positions, values / values.max(), "o-", color=colour, linewidth=width, label=name)
