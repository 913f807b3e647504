"""Figures of the probe `geometry-evolution`."""

import penchant
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned, log_ticks
from penchant_numerics.pictures.curves import curves

from penchant_gih.shared.by_step import step_axis
from penchant_gih.shared.containment import draw_matrix

CORRELATIONS = {"corr-s": "Corr(Delta, S)", "corr-gsg": "Corr(Delta, G S G)"}


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Delta and its containment, and the sweep where there is one (figure 7)."""
    figures = {"evolution": evolution(result)}
    for axis in ("widths", "steps"):
        if axis in result.arrays:
            figures["sweep"] = sweep(result, axis)
    return figures


def evolution(result: penchant.Result) -> Figure:
    """Delta as a picture, and how much of it is inside the leading subspaces of G S G."""
    arrays = result.arrays
    figure = Figure(figsize=(8.8, 3.8))
    left, right = figure.subplots(1, 2)
    draw_matrix(left, arrays["evolution"], "entry of Delta")
    curves(
        {"Delta": result.tables["containment"]},
        x="dimension",
        y="|P Delta P| / |Delta|",
        xlabel="leading eigenvectors of G S G",
        axes=right,
    )
    right.set(ylim=(0, 1.05), xscale="log")
    log_ticks(right)
    caption = (
        "The derivative of the geometry under training, and its share in the leading subspaces of "
        "G S G; dashed: in random subspaces."
    )
    return captioned(figure, caption, title="Evolution of the average geometry")


def sweep(result: penchant.Result, axis: str) -> Figure:
    """Corr(Delta, S) and Corr(Delta, G S G) by width or step (figure 7)."""
    arrays = result.arrays
    figure = curves(
        {label: result.tables[name] for name, label in CORRELATIONS.items()},
        x="sweep",
        y="Frobenius cosine",
        xlabel="width" if axis == "widths" else "step of training",
    )
    (axes,) = figure.axes
    # Widths double, steps begin at zero.
    if axis == "widths":
        axes.set_xscale("log", base=2)
        axes.set_xticks(arrays[axis], [str(width) for width in arrays[axis]])
    else:
        step_axis(axes, arrays[axis])
    caption = (
        "Alignment of the geometry's evolution with the data and with their projection on the "
        "geometry; dashed: after a random rotation."
    )
    return captioned(figure, caption, title="Alignment of the evolution with the data")
