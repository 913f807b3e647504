"""Figures of the probe `geometry-training`."""

import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, GREEN, GREY, SIZE, captioned
from penchant_numerics.pictures.curves import curves

from penchant_gih.shared.by_step import step_axis

CORRELATIONS = {"corr-s": "Corr(G_t, S)", "corr-gsg": "Corr(G_t, G S G)"}
ACCURACIES = {"train-accuracy": ("s--", GREEN), "test-accuracy": ("^:", GREY)}


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Correlations with their nulls (figures 2, 8), and velocity with accuracies (3, 12, 13)."""
    figures = {"correlations": correlations(result)}
    if len(result.arrays["velocity"]):
        figures["velocity"] = velocity(result)
    return figures


def correlations(result: penchant.Result) -> Figure:
    """Corr(G_t, S) and Corr(G_t, G S G) along training (figures 2, 8)."""
    figure = curves(
        {label: result.tables[name] for name, label in CORRELATIONS.items()},
        x="step",
        y="Frobenius cosine",
    )
    step_axis(figure.axes[0], result.arrays["steps"])
    caption = (
        "Alignment of the geometry along training with the data and with their projection on "
        "the initial geometry; dashed: after a random rotation."
    )
    return captioned(figure, caption, title="Alignment of the geometry along training")


def velocity(result: penchant.Result) -> Figure:
    """Velocity between consecutive steps, and accuracies (figures 3, 12, 13)."""
    figure = Figure(figsize=SIZE)
    axes = figure.subplots()
    other = axes.twinx()
    axes.axhline(0, color=FAINT, linewidth=0.8, linestyle=":")
    _errorbar(axes, result, "velocity", "o-", BLUE)
    # Accuracies have an axis of their own at the right.
    for name, (style, colour) in ACCURACIES.items():
        _errorbar(other, result, name, style, colour)
    axes.set_ylabel("1 - Corr of consecutive steps", color=BLUE)
    other.set(ylabel="accuracy", ylim=(0.4, 1.03))
    other.spines["right"].set_visible(True)
    step_axis(axes, result.arrays["steps"])
    figure.legend(loc="outside lower center", ncols=3)
    caption = "Change of the geometry between evaluations (0: none), and accuracies at these steps."
    return captioned(figure, caption, title="Velocity of the geometry")


def _errorbar(axes: Axes, result: penchant.Result, name: str, style: str, colour: str) -> None:
    table = result.tables[name]
    (steps,) = table.axes.values()
    axes.errorbar(
        steps, table.values, table.error, fmt=style, color=colour, label=name.replace("-", " ")
    )
