"""Figures of the probe `nad-agreement`."""

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import BLUE, FAINT, captioned, palette, spectrum


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Overlap of the first k directions with its null, and both spectra."""
    figure = Figure(figsize=(9.0, 3.6))
    left, right = figure.subplots(1, 2)
    _overlap(left, result)
    # Traces differ between estimators, shares of them compare.
    names = result.labels.get("estimators", ("first", "second"))
    values = result.arrays["eigenvalues"]
    for row, name, colour in zip(values, names, palette(2)):
        spectrum(
            row / row.sum(), label=name, ylabel="eigenvalue / trace", colour=colour, axes=right
        )
    caption = (
        "Left: overlap of the first k directions of both estimators, and of random subspaces; "
        "bands are two standard errors. Right: both spectra."
    )
    return {"agreement": captioned(figure, caption, title="Agreement of two estimators")}


def _overlap(axes: Axes, result: penchant.Result) -> None:
    table = result.tables["overlap"]
    k, overlap, half = table.coordinates("k"), table.values, 2 * np.asarray(table.stderr)
    axes.plot(k, overlap, color=BLUE, label="two estimators")
    axes.fill_between(k, overlap - half, overlap + half, color=BLUE, alpha=0.25, linewidth=0)

    # Random subspaces overlap too, the more the larger they are.
    null, spread = np.asarray(table.null), 2 * np.asarray(table.null_spread)
    axes.plot(k, null, color=FAINT, linestyle=":", label="random subspaces")
    axes.fill_between(k, null - spread, null + spread, color=FAINT, alpha=0.25, linewidth=0)
    axes.set(xlabel="first k directions", ylabel="overlap", ylim=(0, 1.05))
    axes.legend(loc="upper left")
