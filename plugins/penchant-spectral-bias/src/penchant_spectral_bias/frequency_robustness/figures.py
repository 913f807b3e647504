"""Figures of the probe `frequency-robustness`."""

import numpy as np
import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import captioned, heat_map
from penchant_numerics.pictures.curves import curves


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Relative amplitude by perturbation and frequency, as a map and as curves."""
    figure = Figure(figsize=(10.5, 3.9))
    left, right = figure.subplots(1, 2)
    heat_map(
        result.arrays["relative-amplitude"],
        columns=result.arrays["frequencies"],
        rows=result.arrays["deltas"],
        xlabel="frequency (cycles)",
        ylabel="perturbation delta",
        label="amplitude / unperturbed",
        limits=(0, 1),
        axes=left,
    )
    _curves(right, result)
    caption = result.quantities["robustness-gap"].sentence(
        above="The lowest frequency keeps more of its amplitude than the highest",
        below="The highest frequency keeps more of its amplitude than the lowest",
        neither="Lowest and highest frequency keep about as much of their amplitude",
    )
    title = "The spectrum of networks whose parameters are moved"
    return {"robustness": captioned(figure, caption, title=title)}


def _curves(axes: Axes, result: penchant.Result) -> None:
    curves(
        result.tables["relative-amplitude"],
        x="delta",
        y="amplitude / unperturbed",
        xlabel="perturbation delta",
        # what a number of random functions leaves of their mean
        level=result.tables["noise-floor"].reduced(np.mean, "frequency"),
        axes=axes,
    )
    axes.set_ylim(bottom=0)
