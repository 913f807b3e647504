"""Figures of the probe `dipole`."""

import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, ORANGE, captioned, log_ticks


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Both sides of lemma 2 and of the Markov bound, by direction."""
    figure = Figure(figsize=(9.0, 3.6))
    left, right = figure.subplots(1, 2)
    # Sizes span decades, shares do not.
    _sides(left, result, "gradient-norm", "bound")
    left.set(ylabel="mean size of the dipole's gradient", yscale="log")
    log_ticks(left)
    _sides(right, result, "exceedance", "markov-bound")
    right.set(ylabel="share of networks above eta")
    excess = result.quantities["largest-excess"]
    caption = (
        "Measured values and their bounds by direction. Left: lemma 2; right: Markov's inequality. "
        f"Largest excess over the bound of lemma 2: {excess}."
    )
    title = "Learning speed of a dipole, and its bounds"
    return {"bounds": captioned(figure, caption, title=title)}


def _sides(axes: Axes, result: penchant.Result, measured: str, bound: str) -> None:
    positions = result.arrays["indices"]
    for name, label, colour, marker in (
        (measured, "measured", BLUE, "o"),
        (bound, "bound", ORANGE, "_"),
    ):
        axes.errorbar(
            positions,
            result.arrays[name],
            result.arrays[f"{name}-stderr"],
            fmt=marker,
            color=colour,
            markersize=5,
            label=label,
        )
    axes.set_xlabel(f"index in the basis {result.options.get('basis', '')}")
    axes.legend()
