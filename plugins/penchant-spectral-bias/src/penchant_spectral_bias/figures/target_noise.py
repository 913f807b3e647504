"""Figures of the probe `target-noise`."""

from __future__ import annotations

from typing import Any

import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import GREY, Curve, by_index, captioned, palette

from penchant_spectral_bias.figures.bands import curve, stderr_of


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Losses by amplitude and by frequency of the noise, and the best validation of each."""
    drawn = {"best": _best(result)}
    for name in ("validation-loss", "training-loss"):
        drawn[f"{name}-by-amplitude"] = _curves(result, name, by="amplitudes")
        drawn[f"{name}-by-frequency"] = _curves(result, name, by="frequencies")
    return drawn


def _curves(result: penchant.Result, name: str, *, by: str) -> Figure:
    """Loss over training: a panel for each value of one axis, a curve for each of the other."""
    values, stderr = result.arrays[name], stderr_of(result, name)
    panels, curves = result.arrays[by], result.arrays["frequencies"]
    if by == "frequencies":
        # a panel a frequency, as in figures 3.4 a and b
        curves = result.arrays["amplitudes"]
        values = values.swapaxes(0, 1)
        stderr = None if stderr is None else stderr.swapaxes(0, 1)
    words = ("amplitude", "cycles") if by == "amplitudes" else ("frequency", "amplitude")
    figure = Figure(figsize=(2.2 + 3.4 * min(len(panels), 4), 3.8))
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for number, panel in enumerate(axes):
        panel.set(xlabel="step", yscale="log", title=f"{words[0]} {panels[number]:g}")
        errors = None if stderr is None else stderr[number]
        _panel(panel, result.arrays["steps"], values[number], errors, curves, words[1])
        clean = result.arrays[f"clean-{name}"]
        panel.plot(result.arrays["steps"], clean, "--", color=GREY, label="no noise")
    axes[0].set_ylabel(f"{name.replace('-', ' ')} (mean squared error)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper")
    caption = "Slow noise spoils validation from the start, fast noise only late."
    if name == "training-loss":
        caption = "Slow noise is fitted early, fast noise late."
    title = f"{name.replace('-', ' ').capitalize()}, by {words[0]} of the noise"
    return captioned(figure, caption, title=title)


def _panel(axes: Axes, steps: Any, values: Any, stderr: Any, places: Any, word: str) -> None:
    for number, colour in enumerate(palette(len(places), ordered=True)):
        error = None if stderr is None else stderr[number]
        label = (
            f"{word} {places[number]:g}" if word == "amplitude" else f"{places[number]:g} {word}"
        )
        curve(axes, steps, values[number], error, colour=colour, label=label)


def _best(result: penchant.Result) -> Figure:
    """The best validation loss by frequency, beside the same noise dealt to other samples."""
    curves = {}
    stderr = stderr_of(result, "best-loss")
    for number, amplitude in enumerate(result.arrays["amplitudes"]):
        error = None if stderr is None else stderr[number]
        null = result.arrays["shuffled-best-loss"][number]
        curves[f"amplitude {amplitude:g}"] = Curve(
            result.arrays["best-loss"][number], stderr=error, null=null
        )
    clean = result.quantities["clean-best-loss"].value
    figure = by_index(
        result.arrays["frequencies"],
        curves,
        xlabel="frequency of the noise (cycles per unit)",
        ylabel="best validation loss",
        level=clean,
        level_label="no noise",
    )
    difference = result.quantities["low-minus-high"]
    caption = f"Slow noise hurts more than fast noise: {difference}; dashed, noise dealt at random."
    return captioned(figure, caption, title="Best validation by frequency of the noise")
