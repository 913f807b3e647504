"""Figures of the probe `frequency-robustness`."""

from __future__ import annotations

import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import GREY, captioned, heat_map, palette

from penchant_spectral_bias.shared.bands import column, stderr_of


def headline(result: penchant.Result) -> str | None:
    """One sentence, chosen by the numbers."""
    quantity = result.quantities.get("robustness-gap")
    if quantity is None or quantity.missing:
        return None
    return quantity.sentence(
        above="The lowest frequency survives changes of the parameters better than the "
        "highest, relative amplitudes",
        below="The highest frequency survives changes of the parameters better than the "
        "lowest, relative amplitudes",
        neither="No significant difference between the lowest and the highest frequency, "
        "relative amplitudes",
    )


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
    frequencies = result.arrays["frequencies"]
    deltas = result.arrays["deltas"]
    relative = result.arrays["relative-amplitude"]
    stderr = stderr_of(result, "relative-amplitude")
    colours = palette(len(frequencies), ordered=True)
    for number, colour in enumerate(colours):
        axes.errorbar(
            deltas,
            relative[:, number],
            column(stderr, number),
            color=colour,
            label=f"{frequencies[number]:g}",
        )
    # what a number of random functions leaves of their mean
    floor = result.arrays["noise-floor"].mean(1)
    axes.plot(deltas, floor, ":", color=GREY, label="chance")
    axes.set(xlabel="perturbation delta", ylabel="amplitude / unperturbed", ylim=(0, None))
    axes.legend(title="frequency", ncols=2, fontsize=7)
