"""Pictures that several probes draw: spectra with their null, curves with errors, rows as images.

Every function draws into given `axes`, or into a figure of its own, and returns the figure. Figures
are `matplotlib.figure.Figure`, never pyplot's, so drawing leaves no trace. What a picture shows is
said by `captioned`: a title on it and a caption beside it, which the report prints.

Only modules that draw import this one, because it imports matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.float64]

BLUE, ORANGE, GREEN, RED = "#2b5c8a", "#d9822b", "#4f8a5b", "#a23b52"
VIOLET, TEAL, BROWN, GREY = "#7a5ea8", "#3a9a9a", "#8a6d3b", "#7a8aa0"
FAINT = "#999999"  # reference lines: chance, zero, a threshold
COLOURS = (BLUE, ORANGE, GREEN, RED, VIOLET, TEAL, BROWN, GREY)

SIZE = (6.0, 3.6)  # inches, of a figure with one panel
_MARKERS = "os^dvP*X"
_ROUNDING = 1e-13  # eigenvalues below this share of the largest are rounding


def palette(count: int, *, ordered: bool = False) -> list[str]:
    """Colours for `count` curves: distinct ones, or shades from dark to light along an order.

    Args:
        count: How many colours.
        ordered: Whether the curves are in an order, such as steps or frequencies.

    >>> palette(2)
    ['#2b5c8a', '#d9822b']
    >>> palette(2, ordered=True)
    ['#440154', '#bddf26']
    """
    if not ordered:
        return [COLOURS[number % len(COLOURS)] for number in range(count)]
    shades = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, count))
    return [matplotlib.colors.to_hex(shade) for shade in shades]


def captioned(figure: Figure, caption: str, title: str | None = None) -> Figure:
    """The figure with a title on it and, as its label, the caption that is printed beside it.

    Args:
        figure: What was drawn.
        caption: One sentence: what to see.
        title: What was measured.
    """
    figure.set_label(caption)
    if title is not None:
        figure.suptitle(title, fontsize=11)
    return figure


def spectrum(
    values: ArrayLike,
    *,
    stderr: ArrayLike | None = None,
    null: ArrayLike | None = None,
    null_spread: ArrayLike | None = None,
    null_label: str = "isotropic, same norms",
    label: str = "measured",
    ylabel: str = "eigenvalue",
    colour: str = BLUE,
    axes: Axes | None = None,
) -> Figure:
    """A sorted spectrum on a logarithmic axis, with the null of each index beside it.

    A sorted spectrum falls under any null, so the largest eigenvalue is compared with the largest
    of the null and the tenth with the tenth: the band is one of each index.

    Args:
        values: Eigenvalues (k,), descending; what is not above rounding is left out.
        stderr: Their standard errors (k,), a band of two.
        null: Spectra without the effect, (draws, k), or their mean (k,).
        null_spread: Their standard deviations (k,), where `null` is a mean; drawn as a band of two.
        null_label: What the null is.
        label: What the spectrum is.
        ylabel: Name and unit of the values.
        colour: The colour of the spectrum.
        axes: Where to draw; without it, a new figure.
    """
    axes = axes or _one_panel()
    values = np.asarray(values, dtype=np.float64)
    shown = _above_rounding(values)
    axes.plot(np.arange(len(shown)), shown, color=colour, label=label)
    if stderr is not None:
        _band(axes, shown, 2 * np.asarray(stderr), colour)
    if null is not None:
        _null_band(axes, np.asarray(null, dtype=np.float64), null_spread, null_label)
    axes.set(yscale="log", xlabel="index", ylabel=ylabel)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    log_ticks(axes)
    axes.legend(frameon=False)
    return axes.figure


def _null_band(axes: Axes, null: Array, spread: ArrayLike | None, label: str) -> None:
    if null.ndim == 2:
        draws = null
        null = draws.mean(0)
        spread = draws.std(0, ddof=1) if len(draws) > 1 else None
    shown = _above_rounding(null)
    axes.plot(np.arange(len(shown)), shown, "--", color=ORANGE, linewidth=1, label=label)
    if spread is not None:
        _band(axes, shown, 2 * np.asarray(spread), ORANGE)


def _above_rounding(values: Array) -> Array:
    if not len(values):
        return values
    return np.where(values > max(0.0, _ROUNDING * values.max()), values, np.nan)


def _band(axes: Axes, middle: Array, half: Array, colour: str) -> None:
    places = np.arange(len(middle))
    # below zero a logarithmic axis has no place: the band ends far under the curve instead
    low = np.maximum(middle - half, middle / 10)
    axes.fill_between(places, low, middle + half, color=colour, alpha=0.25, linewidth=0)


class Curve(NamedTuple):
    """Values along an axis, with their standard errors and what they would be without an effect."""

    values: ArrayLike
    stderr: ArrayLike | None = None
    null: ArrayLike | None = None


class Beside(NamedTuple):
    """Values on a second, logarithmic axis at the right."""

    values: ArrayLike
    label: str


def by_index(
    index: ArrayLike,
    curves: Mapping[str, Curve],
    *,
    xlabel: str,
    ylabel: str,
    level: float | None = None,
    level_label: str = "chance",
    beside: Beside | None = None,
    axes: Axes | None = None,
) -> Figure:
    """Values by index (of a direction, a frequency, a step) with their standard errors.

    Args:
        index: Places (n,), in any order.
        curves: What is drawn, by its label; a null is dashed in the same colour.
        xlabel: Name and unit of the index.
        ylabel: Name and unit of the values.
        level: A value to compare with, such as chance.
        level_label: What that is.
        beside: Values with an axis of their own at the right.
        axes: Where to draw; without it, a new figure.
    """
    panel = axes or _one_panel()
    places = np.asarray(index)
    order = np.argsort(places)
    for number, (label, curve) in enumerate(curves.items()):
        _curve(panel, places[order], curve, order, number, label)
    if level is not None:
        panel.axhline(level, color=FAINT, linewidth=0.8, linestyle=":", label=level_label)
    panel.set(xlabel=xlabel, ylabel=ylabel)
    if beside is not None:
        colour = COLOURS[len(curves) % len(COLOURS)]
        _second_axis(panel, places[order], np.asarray(beside.values)[order], beside.label, colour)
    if axes is None:
        # below the panel a legend covers no point
        panel.figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=4)
    else:
        panel.legend(frameon=False, fontsize=8)
    return panel.figure


def _curve(axes: Axes, places: Array, curve: Curve, order: Array, number: int, label: str) -> None:
    colour = COLOURS[number % len(COLOURS)]
    errors = None if curve.stderr is None else np.asarray(curve.stderr)[order]
    axes.errorbar(
        places,
        np.asarray(curve.values)[order],
        errors,
        fmt=f"{_MARKERS[number % len(_MARKERS)]}-",
        color=colour,
        capsize=2,
        markersize=4,
        linewidth=1.2,
        label=label,
    )
    if curve.null is not None:
        null = np.asarray(curve.null)[order]
        axes.plot(places, null, "--", color=colour, alpha=0.6, label=f"{label}, null")


def _second_axis(axes: Axes, places: Array, values: Array, label: str, colour: str) -> None:
    other = axes.twinx()
    positive = np.where(values > 0, values, np.nan)
    other.plot(places, positive, "d", color=colour, markersize=4, label=label)
    other.set_yscale("log")
    other.set_ylabel(label, color=colour)
    log_ticks(other)


def rows_as_images(
    rows: ArrayLike,
    shape: Sequence[int],
    *,
    titles: Sequence[str] | None = None,
    columns: int = 10,
    fourier: bool = False,
) -> Figure:
    """Rows drawn in the shape of the input: what a direction looks like.

    One channel is grey, three are the colours red, green and blue, both scaled so that zero is
    mid-grey; any other number has a panel a channel. Inputs with one axis are curves.

    Args:
        rows: Directions (k, values).
        shape: The shape of an input: (values,), (height, width), or (channels, height, width).
        titles: Over each row; by default its number.
        columns: Rows beside each other.
        fourier: Whether the amplitude spectrum is drawn below each, zero frequency in the centre,
            the mean over channels.
    """
    rows = np.asarray(rows, dtype=np.float64)
    shape = tuple(shape)
    if len(shape) > 3 or rows.ndim != 2 or rows.shape[1] != math.prod(shape):
        raise ValueError(
            f"expected rows of the values of an input of shape {shape} with up to three axes, "
            f"found an array of shape {rows.shape}"
        )
    names = list(titles) if titles is not None else [str(number) for number in range(len(rows))]
    tall = _panels_a_row(shape, fourier=fourier)
    columns = min(columns, len(rows))
    lines = math.ceil(len(rows) / columns)
    height, width = _panel_size(shape)
    figure = Figure(
        figsize=(width * columns + 0.4, (height * tall + 0.25) * lines + 0.5),
        layout="constrained",
    )
    grid = figure.subplots(lines * tall, columns, squeeze=False)
    for panel in grid.flat:
        panel.set(xticks=[], yticks=[])
        panel.set_visible(False)
    for number, (row, name) in enumerate(zip(rows, names)):
        line, column = divmod(number, columns)
        own = grid[line * tall : (line + 1) * tall, column]
        _draw_row(own, row.reshape(shape), fourier=fourier)
        own[0].set_title(name, fontsize=8)
        if column == 0:
            _name_panels(own, fourier=fourier)
    return figure


def _name_panels(panels: Sequence[Axes], *, fourier: bool) -> None:
    pictures = panels[:-1] if fourier else panels
    for number, panel in enumerate(pictures):
        panel.set_ylabel(f"channel {number}" if len(pictures) > 1 else "input", fontsize=8)
    if fourier:
        panels[-1].set_ylabel("Fourier", fontsize=8)


def _panels_a_row(shape: tuple[int, ...], *, fourier: bool) -> int:
    channels = shape[0] if len(shape) == 3 else 1
    pictures = 1 if channels == 3 else channels
    return pictures + fourier


def _panel_size(shape: tuple[int, ...]) -> tuple[float, float]:
    """Height and width, in inches; long pictures stay long."""
    if len(shape) == 1:
        return 0.9, 1.3
    stretch = min(3.0, max(1 / 3, shape[-2] / shape[-1]))
    return 1.05 * stretch, 1.05


def _draw_row(panels: Sequence[Axes], values: Array, *, fourier: bool) -> None:
    for panel in panels:
        panel.set_visible(True)
    limit = float(np.abs(values).max()) or 1.0
    if values.ndim == 1:
        panels[0].axhline(0, color=FAINT, linewidth=0.6)
        panels[0].plot(values, color=BLUE, linewidth=1)
        panels[0].set_ylim(-1.05 * limit, 1.05 * limit)
    else:
        _draw_picture(panels, values.reshape(-1, *values.shape[-2:]) / limit)
    if fourier:
        _draw_amplitudes(panels[-1], values)


def _draw_picture(panels: Sequence[Axes], channels: Array) -> None:
    """Channels (channels, height, width) between -1 and 1."""
    if len(channels) == 3:
        colours = channels.transpose(1, 2, 0) / 2 + 0.5
        panels[0].imshow(colours, interpolation="nearest")
        return
    for panel, channel in zip(panels, channels):
        panel.imshow(channel, cmap="gray", vmin=-1, vmax=1, interpolation="nearest")


def _draw_amplitudes(panel: Axes, values: Array) -> None:
    if values.ndim == 1:
        panel.plot(np.abs(np.fft.rfft(values)), color=TEAL, linewidth=1)
        return
    planes = values.reshape(-1, *values.shape[-2:])
    amplitudes = np.abs(np.fft.fft2(planes)).mean(0)
    panel.imshow(np.fft.fftshift(amplitudes), cmap="viridis", interpolation="nearest")


def heat_map(
    values: ArrayLike,
    *,
    columns: Sequence[float],
    rows: Sequence[float],
    xlabel: str,
    ylabel: str,
    label: str,
    limits: tuple[float | None, float | None] = (None, None),
    bar: bool = True,
    axes: Axes | None = None,
) -> Figure:
    """Values in cells of equal size, whatever the places they belong to; rows go upwards.

    Args:
        values: Numbers (rows, columns); cells without one are light grey.
        columns: The place of each column; as many as fit are written.
        rows: The place of each row.
        xlabel: Name and unit of the columns.
        ylabel: Name and unit of the rows.
        label: Name and unit of the values.
        limits: The ends of the colours; None is the smallest, or largest, value.
        bar: Whether there is a colour bar; panels of one figure share one.
        axes: Where to draw; without it, a new figure.
    """
    axes = axes or _one_panel()
    axes.set_facecolor("#e6e6e6")
    drawn = axes.imshow(
        np.asarray(values, dtype=np.float64),
        origin="lower",
        aspect="auto",
        cmap="viridis",
        interpolation="nearest",
        vmin=limits[0],
        vmax=limits[1],
    )
    _few_places(axes.xaxis, columns, 10)
    _few_places(axes.yaxis, rows, 6)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    if bar:
        axes.figure.colorbar(drawn, ax=axes, label=label)
    return axes.figure


def _few_places(axis: Axis, places: Sequence[float], most: int) -> None:
    every = max(1, math.ceil(len(places) / most))
    chosen = range(0, len(places), every)
    axis.set_ticks(chosen, [f"{places[number]:g}" for number in chosen])


def log_ticks(*axes: Axes) -> None:
    """Few ticks with plain labels on what is logarithmic: over less than a decade the automatic
    ones run into each other, and most of the time of drawing many panels goes into ticks.

    Args:
        axes: Panels whose logarithmic axes get at most five ticks, at powers of ten, or also at two
            and five times these where there are fewer than two decades.
    """
    for panel in axes:
        for axis in (panel.xaxis, panel.yaxis):
            if axis.get_scale() == "log":
                _few_log_ticks(axis)


def _few_log_ticks(axis: Axis) -> None:
    low, high = axis.get_view_interval()
    narrow = low > 0 and high / low < 100
    steps = (1.0, 2.0, 5.0) if narrow else (1.0,)
    axis.set_major_locator(LogLocator(subs=steps, numticks=5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _one_panel() -> Axes:
    return Figure(figsize=SIZE, layout="constrained").subplots()
