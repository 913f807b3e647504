"""Figures of the probe `target-noise`."""

from __future__ import annotations

from typing import Any

import penchant
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from penchant_numerics.pictures import GREY, Curve, by_index, captioned, palette

from penchant_spectral_bias.shared.bands import curve, row, stderr_of

CAPTIONS = {
    "validation-loss": "Loss on clean targets of test samples; bands: one standard error.",
    "training-loss": "Loss on the noisy targets of training; bands: one standard error.",
}


def headline(result: penchant.Result) -> str | None:
    """One sentence, chosen by the numbers."""
    quantity = result.quantities.get("low-minus-high")
    if quantity is None or quantity.missing:
        return None
    return quantity.sentence(
        above="Low-frequency noise in the targets hurts more",
        below="High-frequency noise in the targets hurts more",
        neither="No significant difference between noise of low and of high frequency",
    )


def draw(result: penchant.Result) -> dict[str, Figure]:
    """Losses by amplitude and by frequency of the noise, and the best validation of each."""
    figures = {"best": _best(result)}
    for name in CAPTIONS:
        figures[f"{name}-by-amplitude"] = _curves(result, name, by="amplitudes")
        figures[f"{name}-by-frequency"] = _curves(result, name, by="frequencies")
    return figures


def _curves(result: penchant.Result, name: str, *, by: str) -> Figure:
    """Loss over training: a panel for each value of one axis, a curve for each of the other."""
    values = result.arrays[name]
    stderr = stderr_of(result, name)
    panels = result.arrays[by]
    lines = result.arrays["frequencies"]
    of_panel, of_line = "amplitude", "frequency"
    if by == "frequencies":
        # one panel per frequency, as in figures 3.4 a and b
        lines = result.arrays["amplitudes"]
        of_panel, of_line = of_line, of_panel
        values = values.swapaxes(0, 1)
        if stderr is not None:
            stderr = stderr.swapaxes(0, 1)

    width = 2.2 + 3.4 * min(len(panels), 4)
    figure = Figure(figsize=(width, 3.8))
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    labels = [f"{of_line} {position:g}" for position in lines]
    for number, panel in enumerate(axes):
        title = f"{of_panel} {panels[number]:g}"
        panel.set(xlabel="step", yscale="log", title=title)
        error = row(stderr, number)
        _panel(panel, result, name, labels, values[number], error)

    # names once for all panels
    loss = name.replace("-", " ")
    axes[0].set_ylabel(f"{loss} (mean squared error)")
    handles, texts = axes[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside right upper")
    title = f"{loss.capitalize()}, by {of_panel} of the noise"
    return captioned(figure, CAPTIONS[name], title=title)


def _panel(
    axes: Axes, result: penchant.Result, name: str, labels: list[str], values: Any, stderr: Any
) -> None:
    """A curve a label, and the loss without noise."""
    steps = result.arrays["steps"]
    colours = palette(len(labels), ordered=True)
    for number, label in enumerate(labels):
        error = row(stderr, number)
        curve(axes, steps, values[number], error, colour=colours[number], label=label)
    clean = result.arrays[f"clean-{name}"]
    axes.plot(steps, clean, "--", color=GREY, label="no noise")


def _best(result: penchant.Result) -> Figure:
    """The best validation loss by frequency, beside the same noise permuted among samples."""
    curves = {}
    stderr = stderr_of(result, "best-loss")
    for number, amplitude in enumerate(result.arrays["amplitudes"]):
        # dashed: the same values permuted among samples
        curves[f"amplitude {amplitude:g}"] = Curve(
            values=result.arrays["best-loss"][number],
            stderr=row(stderr, number),
            null=result.arrays["shuffled-best-loss"][number],
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
    caption = result.quantities["low-minus-high"].sentence(
        above="Low-frequency noise hurts more than high-frequency noise (dashed: permuted noise)",
        below="High-frequency noise hurts more than low-frequency noise (dashed: permuted noise)",
        neither="No significant difference of low- and high-frequency noise (dashed: permuted "
        "noise)",
    )
    return captioned(figure, caption, title="Best validation loss by noise frequency")
