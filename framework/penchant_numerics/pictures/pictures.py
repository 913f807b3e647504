"""Pictures that several probes draw: spectra with their null, curves with errors, rows as images.

Every function draws into given `axes`, or into a figure of its own, and returns the figure. Figures
are `matplotlib.figure.Figure`, never pyplot's, so drawing leaves no trace. What a picture shows is
set by `captioned`: a title on it and a caption beside it, which the report prints.

Only modules that draw import this one, because it imports matplotlib.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import ArrayLike, NDArray
from penchant_numerics.refusal import Refusal

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
        return [_colour(number) for number in range(count)]
    positions = np.linspace(0, 0.9, count)  # the lightest shades are hard to see on white
    shades = matplotlib.colormaps["viridis"](positions)
    return [matplotlib.colors.to_hex(shade) for shade in shades]


def captioned(figure: Figure, caption: str, title: str | None = None) -> Figure:
    """The figure with a title on it and, as its label, the caption that is printed beside it.

    Args:
        figure: What was drawn.
        caption: One sentence: what to see.
        title: What was measured.

    Returns:
        The same figure.

    >>> figure = captioned(Figure(), "Eigenvalues fall.", title="NAD")
    >>> figure.get_label(), figure.get_suptitle()
    ('Eigenvalues fall.', 'NAD')
    """
    figure.set_label(caption)
    if title is not None:
        figure.suptitle(title, fontsize=11)
    return figure


# ---- spectra


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

    Returns:
        The figure.

    >>> figure = spectrum([4.0, 2.0, 1.0], null=[2.4, 2.3, 2.2])
    >>> figure.axes[0].get_yscale()
    'log'
    """
    axes = axes or _one_panel()
    values = np.asarray(values, dtype=np.float64)
    # what was measured
    shown = _above_rounding(values)
    positions = np.arange(len(shown))
    axes.plot(positions, shown, color=colour, label=label)
    if stderr is not None:
        _band(axes, shown, 2 * np.asarray(stderr), colour)
    # what it would be without the effect
    if null is not None:
        _null_band(axes, np.asarray(null, dtype=np.float64), null_spread, null_label)
    axes.set(yscale="log", xlabel="index", ylabel=ylabel)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    log_ticks(axes)
    axes.legend(frameon=False)
    return _figure_of(axes)


def _null_band(axes: Axes, null: Array, spread: ArrayLike | None, label: str) -> None:
    """A null of each index: a dashed line, and where its spread is known a band of two of it."""
    if null.ndim == 2:
        draws = null
        null = draws.mean(0)
        spread = None
        if len(draws) > 1:
            spread = draws.std(0, ddof=1)

    shown = _above_rounding(null)
    positions = np.arange(len(shown))
    axes.plot(positions, shown, "--", color=ORANGE, linewidth=1, label=label)
    if spread is not None:
        _band(axes, shown, 2 * np.asarray(spread), ORANGE)


def _above_rounding(values: Array) -> Array:
    """Values, not a number where they are zero to rounding: a logarithmic axis cannot show them."""
    if not len(values):
        return values
    floor = max(0.0, _ROUNDING * values.max())
    return np.where(values > floor, values, np.nan)


def _band(axes: Axes, middle: Array, half: Array, colour: str) -> None:
    """A band around a curve."""
    positions = np.arange(len(middle))
    # a logarithmic axis cannot show zero: the band ends far under the curve instead
    low = np.maximum(middle - half, middle / 10)
    high = middle + half
    axes.fill_between(positions, low, high, color=colour, alpha=0.25, linewidth=0)


# ---- curves


class Curve(NamedTuple):
    """Values along an axis, with their standard errors and what they would be without an effect.

    >>> accuracy = Curve([0.5, 0.9], stderr=[0.1, 0.05], null=[0.5, 0.5])
    >>> figure = by_index([0, 1], {"accuracy": accuracy}, xlabel="direction", ylabel="accuracy")
    >>> figure.axes[0].get_xlabel()
    'direction'
    """

    values: ArrayLike
    stderr: ArrayLike | None = None
    null: ArrayLike | None = None


class Beside(NamedTuple):
    """Values on a second, logarithmic axis at the right.

    >>> curves = {"accuracy": Curve([0.5, 0.9])}
    >>> beside = Beside([2.0, 0.1], "eigenvalue")
    >>> figure = by_index([0, 1], curves, xlabel="index", ylabel="accuracy", beside=beside)
    >>> [panel.get_ylabel() for panel in figure.axes]
    ['accuracy', 'eigenvalue']
    """

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
        index: Positions (n,), in any order.
        curves: What is drawn, by its label; a null is dashed in the same colour.
        xlabel: Name and unit of the index.
        ylabel: Name and unit of the values.
        level: A value to compare with, such as chance.
        level_label: What that is.
        beside: Values with an axis of their own at the right.
        axes: Where to draw; without it, a new figure.

    Returns:
        The figure.
    """
    panel = axes or _one_panel()
    # what was measured, in the order of the axis
    positions = np.asarray(index)
    order = np.argsort(positions)
    for number, (label, curve) in enumerate(curves.items()):
        _curve(panel, positions, curve, order=order, number=number, label=label)
    # what to compare with
    if level is not None:
        panel.axhline(level, color=FAINT, linewidth=0.8, linestyle=":", label=level_label)
    panel.set(xlabel=xlabel, ylabel=ylabel)
    if beside is not None:
        _second_axis(panel, positions, beside, colour=_colour(len(curves)))

    if axes is None:
        # below the panel a legend covers no point
        panel.figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=4)
    else:
        panel.legend(frameon=False, fontsize=8)
    return _figure_of(panel)


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _curve(
    axes: Axes, positions: Array, curve: Curve, *, order: NDArray[np.intp], number: int, label: str
) -> None:
    """Values with bars, and their null dashed in the same colour."""
    colour = _colour(number)
    marker = _MARKERS[number % len(_MARKERS)]
    values = np.asarray(curve.values)[order]
    errors = None
    if curve.stderr is not None:
        errors = np.asarray(curve.stderr)[order]
    axes.errorbar(
        positions[order],
        values,
        errors,
        fmt=f"{marker}-",
        color=colour,
        capsize=2,
        markersize=4,
        linewidth=1.2,
        label=label,
    )
    if curve.null is None:
        return
    null = np.asarray(curve.null)[order]
    axes.plot(positions[order], null, "--", color=colour, alpha=0.6, label=f"{label}, null")


def _second_axis(axes: Axes, positions: Array, beside: Beside, *, colour: str) -> None:
    """Points on a logarithmic axis at the right, which has their colour."""
    values = np.asarray(beside.values)
    positive = np.where(values > 0, values, np.nan)
    other = axes.twinx()
    other.plot(positions, positive, "d", color=colour, markersize=4, label=beside.label)
    other.set_yscale("log")
    other.set_ylabel(beside.label, color=colour)
    log_ticks(other)


# ---- images


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

    Returns:
        A new figure.
    """
    rows = np.asarray(rows, dtype=np.float64)
    shape = tuple(shape)
    _check_rows(rows, shape)
    if titles is None:
        titles = [str(number) for number in range(len(rows))]

    # a row of the array is a column of panels: its channels, then its spectrum
    columns = min(columns, len(rows))
    lines = math.ceil(len(rows) / columns)
    tall = _panels_a_row(shape) + fourier
    figure, grid = _grid(shape, lines=lines, tall=tall, columns=columns)
    for number, (row, title) in enumerate(zip(rows, titles)):
        line, column = divmod(number, columns)
        first = line * tall
        panels = list(grid[first : first + tall, column])
        _draw_row(panels, row.reshape(shape), fourier=fourier)
        # what it is stands above it, what its panels are at the left of all
        panels[0].set_title(title, fontsize=8)
        if column == 0:
            _name_panels(panels, fourier=fourier)
    return figure


def _check_rows(rows: Array, shape: tuple[int, ...]) -> None:
    values = math.prod(shape)
    fits = rows.ndim == 2 and rows.shape[1] == values
    if not fits or len(shape) > 3:
        raise Refusal(
            f"expected rows of the values of an input of shape {shape} with up to three axes, "
            f"found an array of shape {rows.shape}"
        )


def _grid(
    shape: tuple[int, ...], *, lines: int, tall: int, columns: int
) -> tuple[Figure, NDArray[np.object_]]:
    """A figure with `lines` of `columns` pictures, each `tall` panels; all are hidden at first."""
    # inches, with room for titles
    height, width = _panel_size(shape)
    across = width * columns + 0.4
    down = (height * tall + 0.25) * lines + 0.5
    figure = Figure(figsize=(across, down), layout="constrained")
    grid = figure.subplots(lines * tall, columns, squeeze=False)
    for panel in grid.flat:
        panel.set(xticks=[], yticks=[])
        panel.set_visible(False)
    return figure, grid


def _panels_a_row(shape: tuple[int, ...]) -> int:
    """One, or as many as channels; three channels are the colours of one picture."""
    if len(shape) < 3:
        return 1
    channels = shape[0]
    return 1 if channels == 3 else channels


def _panel_size(shape: tuple[int, ...]) -> tuple[float, float]:
    """Height and width, in inches; long pictures stay long."""
    if len(shape) == 1:
        return 0.9, 1.3
    # but not longer than three times the other side
    height, width = shape[-2:]
    stretch = height / width
    stretch = max(1 / 3, stretch)
    stretch = min(3.0, stretch)
    return 1.05 * stretch, 1.05


def _name_panels(panels: Sequence[Axes], *, fourier: bool) -> None:
    """Say at the left what each panel of a row is."""
    # several channels have a panel each
    names = ["input"]
    channels = len(panels) - fourier
    if channels > 1:
        names = [f"channel {number}" for number in range(channels)]
    if fourier:
        names.append("Fourier")
    for panel, name in zip(panels, names):
        panel.set_ylabel(name, fontsize=8)


def _draw_row(panels: Sequence[Axes], values: Array, *, fourier: bool) -> None:
    """A row in the shape of an input."""
    for panel in panels:
        panel.set_visible(True)
    # one scale for all channels
    limit = float(np.abs(values).max()) or 1.0
    if values.ndim == 1:
        _draw_signal(panels[0], values, limit)
    else:
        _draw_picture(panels, _channels(values) / limit)
    # the last panel is for its spectrum
    if fourier:
        _draw_amplitudes(panels[-1], values)


def _channels(values: Array) -> Array:
    """An image as (channels, height, width)."""
    height, width = values.shape[-2:]
    return values.reshape(-1, height, width)


def _draw_signal(panel: Axes, values: Array, limit: float) -> None:
    """A curve around zero."""
    panel.axhline(0, color=FAINT, linewidth=0.6)
    panel.plot(values, color=BLUE, linewidth=1)
    # both sides, so that the line of zero is in the middle
    edge = 1.05 * limit
    panel.set_ylim(-edge, edge)


def _draw_picture(panels: Sequence[Axes], channels: Array) -> None:
    """Channels between -1 and 1: colours where there are three, else one grey picture each."""
    if len(channels) == 3:
        colours = channels.transpose(1, 2, 0) / 2 + 0.5
        panels[0].imshow(colours, interpolation="nearest")
        return
    for panel, channel in zip(panels, channels):
        panel.imshow(channel, cmap="gray", vmin=-1, vmax=1, interpolation="nearest")


def _draw_amplitudes(panel: Axes, values: Array) -> None:
    """The amplitude spectrum of a signal, or of an image, its channels averaged."""
    if values.ndim == 1:
        spectrum_of_signal = np.abs(np.fft.rfft(values))
        panel.plot(spectrum_of_signal, color=TEAL, linewidth=1)
        return
    # frequency zero in the centre
    transform = np.fft.fft2(_channels(values))
    amplitudes = np.abs(transform).mean(0)
    panel.imshow(np.fft.fftshift(amplitudes), cmap="viridis", interpolation="nearest")


# ---- maps


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
    """Values in cells of equal size, whatever the positions they belong to; rows go upwards.

    Args:
        values: Numbers (rows, columns); cells without one are light grey.
        columns: The position of each column; as many as fit are written.
        rows: The position of each row.
        xlabel: Name and unit of the columns.
        ylabel: Name and unit of the rows.
        label: Name and unit of the values.
        limits: The ends of the colours; None is the smallest, or largest, value.
        bar: Whether there is a colour bar; panels of one figure share one.
        axes: Where to draw; without it, a new figure.

    Returns:
        The figure.
    """
    axes = axes or _one_panel()
    axes.set_facecolor("#e6e6e6")
    image = axes.imshow(
        np.asarray(values, dtype=np.float64),
        origin="lower",
        aspect="auto",
        cmap="viridis",
        interpolation="nearest",
        vmin=limits[0],
        vmax=limits[1],
    )
    _few_positions(axes.xaxis, columns, 10)
    _few_positions(axes.yaxis, rows, 6)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    if bar:
        axes.figure.colorbar(image, ax=axes, label=label)
    return _figure_of(axes)


def _few_positions(axis: Axis, positions: Sequence[float], most: int) -> None:
    """Write every n-th of the positions."""
    count = len(positions)
    every = math.ceil(count / most)
    chosen = range(0, count, max(1, every))
    names = []
    for number in chosen:
        position = positions[number]
        names.append(f"{position:g}")
    axis.set_ticks(chosen, names)


# ---- axes


def log_ticks(*axes: Axes) -> None:
    """Few ticks with plain labels on what is logarithmic.

    Over less than a decade the automatic ones run into each other, and most of the time of drawing
    many panels goes into ticks.

    Args:
        axes: Panels whose logarithmic axes get at most five ticks, at powers of ten, or also at two
            and five times these where there are fewer than two decades.

    >>> panel = Figure().subplots()
    >>> _ = panel.loglog([1, 1e6], [1, 1e6])
    >>> log_ticks(panel)
    >>> len(panel.get_xticks()) <= 7
    True
    """
    for panel in axes:
        for axis in (panel.xaxis, panel.yaxis):
            if axis.get_scale() == "log":
                _few_log_ticks(axis)


def _few_log_ticks(axis: Axis) -> None:
    """At most five ticks, none between them."""
    # where few powers of ten are in view, others are needed
    low, high = axis.get_view_interval()
    narrow = low > 0 and high / low < 100
    steps = (1.0, 2.0, 5.0) if narrow else (1.0,)
    axis.set_major_locator(LogLocator(subs=steps, numticks=5))
    axis.set_major_formatter(FuncFormatter(_plainly))
    # nothing between them
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _plainly(value: float, position: int | None) -> str:
    return f"{value:g}"


def legend_beside(panel: Axes, **how: Any) -> None:
    """Put the legend of a panel to its right, where a constrained layout makes room for it.

    >>> panel = Figure().subplots()
    >>> _ = panel.plot([0, 1], label="loss")
    >>> legend_beside(panel)
    >>> [text.get_text() for text in panel.get_legend().get_texts()]
    ['loss']
    """
    panel.legend(loc="upper left", bbox_to_anchor=(1.02, 1), **how)


def _figure_of(axes: Axes) -> Figure:
    """The figure that axes are in, directly or in a subfigure."""
    figure = axes.figure
    return figure if isinstance(figure, Figure) else figure.figure


def _one_panel() -> Axes:
    figure = Figure(figsize=SIZE, layout="constrained")
    return figure.subplots()
