"""Curves of tables: numbers along a named axis, with their errors and nulls.

A table here is anything with the attributes of a `penchant.Table`. Only modules that draw import
this one, because it imports matplotlib.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from penchant_numerics.pictures.pictures import FAINT, GREY, SIZE, Array, log_ticks, palette

PANEL = 3.4  # inches across, of each of several panels
MOST_PANELS = 4  # whose width a figure has; more are narrower
MOST_COLUMNS = 3  # of panels of several tables
MARKERS = "os^dvP*X"
NARROW = 22  # characters of a label up to which four stand beside each other
MANY = 25  # coordinates from which on points have a band in place of bars
MOST_NAMES = 30  # on an axis of names
BESIDE = 0.12  # between points of two curves at one name
LETTERS = 12  # that fit beside each other in an inch


_LEVEL = "level"  # the name of the reference beside those of tables


class Tabled(Protocol):
    """Numbers along named axes, such as a `penchant.Table`."""

    @property
    def values(self) -> Any:
        """The numbers."""

    @property
    def axes(self) -> Mapping[str, Sequence[Any]]:
        """Axes with their coordinates."""

    @property
    def error(self) -> Any:
        """Standard errors, or None."""

    @property
    def null(self) -> Any:
        """Values without the effect, or None."""

    def at(self, **coordinates: Any) -> Any:
        """The table at some coordinates."""


class Line(NamedTuple):
    """One curve: a table of the axis along which it is drawn, and how it looks."""

    label: str
    table: Any
    colour: str
    marker: str = "o"


class Panel(NamedTuple):
    """One of several panels: its tables, name and unit of their numbers, what to compare with."""

    tables: Tabled | Mapping[str, Tabled]
    y: str
    level: float | Tabled | None = None
    level_label: str = "chance"
    yscale: str = "linear"


def curves(
    tables: Tabled | Mapping[str, Tabled],
    *,
    x: str,
    y: str,
    xlabel: str | None = None,
    panels: str | None = None,
    level: float | Tabled | None = None,
    level_label: str = "chance",
    xscale: str = "linear",
    yscale: str = "linear",
    axes: Axes | None = None,
) -> Figure:
    """Numbers along an axis, with their standard errors; nulls are dashed.

    Errors are bars, or bands where there are many points. An axis besides `x` and `panels` has a
    curve for each of its coordinates.

    Args:
        tables: One table, or several by their labels.
        x: The axis along which they are drawn.
        y: Name and unit of the numbers.
        xlabel: Name and unit of the axis, where its name does not say it.
        panels: An axis with a panel for each coordinate.
        level: A number to compare with, such as chance, or numbers along `x`.
        level_label: What that is.
        xscale: "linear", "log" or "symlog".
        yscale: The same.
        axes: Where to draw a single panel; without it, a new figure.

    Returns:
        The figure.
    """
    named = tables if isinstance(tables, Mapping) else {"": tables}
    shown = _panels({**named, _LEVEL: level}, panels)
    figure, every = _panel_axes(len(shown), axes)
    for panel, (title, own) in zip(every, shown.items()):
        panel.set(xlabel=xlabel or x, xscale=xscale, yscale=yscale, title=title)
        reference = own.pop(_LEVEL)
        _fill(panel, own, x, reference, level_label)
    every[0].set_ylabel(y)
    _legend(figure, every, inside=axes is not None)
    return figure


def panels(
    shown: Mapping[str, Panel],
    *,
    x: str,
    xlabel: str | None = None,
    xscale: str = "linear",
    columns: int = MOST_COLUMNS,
) -> Figure:
    """Tables along one axis, each in a panel of its own; what curves are stands below, once.

    Args:
        shown: What each panel shows, by its title.
        x: The axis along which all are drawn.
        xlabel: Name and unit of the axis, where its name does not say it.
        xscale: "linear", "log" or "symlog".
        columns: Panels beside each other.

    Returns:
        The figure.
    """
    columns = min(columns, len(shown))
    rows = -(-len(shown) // columns)
    size = (1.0 + PANEL * columns, 0.6 + 3.0 * rows)
    figure = Figure(figsize=size, layout="constrained")
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, (title, panel) in zip(grid, shown.items()):
        axes.set(xlabel=xlabel or x, ylabel=panel.y, xscale=xscale, yscale=panel.yscale)
        axes.set_title(title, fontsize=10)
        named = panel.tables if isinstance(panel.tables, Mapping) else {"": panel.tables}
        _fill(axes, named, x, panel.level, panel.level_label)
    for unused in grid[len(shown) :]:
        unused.set_visible(False)
    _legend_below(figure, grid)
    return figure


def _fill(
    axes: Axes, tables: Mapping[str, Any], x: str, level: float | Tabled | None, label: str
) -> None:
    """The curves of one panel, and what to compare them with."""
    lines = list(_lines(tables, x))
    for number, line in enumerate(lines):
        _draw(axes, line, x, shift=(number - (len(lines) - 1) / 2) * min(BESIDE, 0.6 / len(lines)))
    if level is not None:
        _draw_level(axes, level, x, label)
    log_ticks(axes)


def _panels(tables: Mapping[str, Any], axis: str | None) -> dict[str, dict[str, Any]]:
    """What each panel shows, by its title; what does not have the axis is in every panel."""
    if axis is None:
        return {"": dict(tables)}
    having = {name: each for name, each in tables.items() if axis in getattr(each, "axes", ())}
    coordinates = next(iter(having.values())).axes[axis]
    return {
        _label(axis, coordinate): {
            name: each.at(**{axis: coordinate}) if name in having else each
            for name, each in tables.items()
        }
        for coordinate in coordinates
    }


def _lines(tables: Mapping[str, Any], x: str) -> Iterator[Line]:
    """A curve for each table, and for each coordinate of its other axis."""
    several = palette(len(tables))
    markers = itertools.cycle(MARKERS)
    for (name, table), colour in zip(tables.items(), several):
        others = [axis for axis in table.axes if axis != x]
        if not others:
            yield Line(name, table, colour, next(markers))
            continue
        (axis,) = others
        coordinates = table.axes[axis]
        ordered = len(coordinates) > 1 and not isinstance(coordinates[0], str)
        for coordinate, shade in zip(coordinates, palette(len(coordinates), ordered=ordered)):
            label = " ".join(filter(None, (name, _label(axis, coordinate))))
            yield Line(label, table.at(**{axis: coordinate}), shade)


def _label(axis: str, coordinate: Any) -> str:
    return str(coordinate) if isinstance(coordinate, str) else f"{axis} {coordinate:g}"


def _panel_axes(count: int, axes: Axes | None) -> tuple[Figure, list[Axes]]:
    if axes is not None:
        own = axes.figure
        return (own if isinstance(own, Figure) else own.figure), [axes]
    if count == 1:
        figure = Figure(figsize=SIZE, layout="constrained")
        return figure, [figure.subplots()]
    width = 2.2 + PANEL * min(count, MOST_PANELS)
    figure = Figure(figsize=(width, 3.8), layout="constrained")
    return figure, list(figure.subplots(1, count, sharey=True))


def _draw(axes: Axes, line: Line, x: str, *, shift: float) -> None:
    """A curve with its errors, and its null dashed in the same colour.

    At names, points of several curves stand beside each other.
    """
    table, colour, label = line.table, line.colour, line.label or None
    positions, are_names = _positions(axes, table.axes[x])
    order = np.argsort(positions)
    values = np.asarray(table.values, dtype=np.float64)[order]
    errors = None if table.error is None else np.broadcast_to(table.error, values.shape)[order]
    where = positions[order] + (shift if are_names else 0.0)
    many = len(where) > MANY
    axes.errorbar(
        where,
        values,
        None if many else errors,
        fmt="" if many else line.marker if are_names else f"{line.marker}-",
        color=colour,
        markersize=4,
        linewidth=1.2,
        label=label,
    )
    if many and errors is not None:
        _band(axes, where, values, errors, colour)
    if table.null is not None:
        null = np.broadcast_to(table.null, values.shape)[order]
        text = f"{label}, null" if label else "null"
        axes.plot(where, null, "--", color=colour, alpha=0.6, label=text)


def _draw_level(axes: Axes, level: Any, x: str, label: str) -> None:
    if not hasattr(level, "axes"):
        axes.axhline(level, color=FAINT, linewidth=0.8, linestyle=":", label=label)
        return
    positions, _ = _positions(axes, level.axes[x])
    axes.plot(positions, level.values, "--", color=GREY, label=label)


def _positions(axes: Axes, coordinates: Sequence[Any]) -> tuple[Array, bool]:
    """Where coordinates stand; names stand beside each other."""
    if not isinstance(coordinates[0], str):
        return np.asarray(coordinates, dtype=np.float64), False
    _write_names(axes, coordinates)
    return np.arange(len(coordinates), dtype=np.float64), True


def _write_names(axes: Axes, names: Sequence[str]) -> None:
    """Names along an axis: upright where they would touch, every n-th where there are many."""
    every = -(-len(names) // MOST_NAMES)
    written = names[::every]
    inches = axes.bbox.width / axes.figure.dpi
    upright = sum(len(name) + 2 for name in written) > LETTERS * inches
    axes.set_xticks(range(0, len(names), every), written, rotation=90 if upright else 0)
    if upright:
        axes.tick_params(axis="x", labelsize=7)


def _band(axes: Axes, where: Array, values: Array, errors: Array, colour: str) -> None:
    low, high = values - errors, values + errors
    if axes.get_yscale() == "log":
        # a logarithmic axis cannot show zero: the band ends far under the curve instead
        low = np.maximum(low, values / 10)
    axes.fill_between(where, low, high, color=colour, alpha=0.2, linewidth=0)


def _legend(figure: Figure, every: Sequence[Axes], *, inside: bool) -> None:
    """Names once for all panels, where they cover no point."""
    named = _named(every[:1])
    if not named:
        return
    if inside:
        every[0].legend(list(named.values()), list(named), frameon=False, fontsize=8)
    elif len(every) > 1:
        figure.legend(list(named.values()), list(named), loc="outside right upper")
    else:
        _legend_below(figure, every)


def _named(every: Sequence[Axes]) -> dict[str, Artist]:
    """Each label once: curves first, what they are compared with after them."""
    pairs = [pair for axes in every for pair in zip(*axes.get_legend_handles_labels())]
    pairs.sort(key=lambda pair: isinstance(pair[0], Line2D))
    named: dict[str, Artist] = {}
    for handle, label in pairs:
        named.setdefault(label, handle)
    return named


def _legend_below(figure: Figure, every: Sequence[Axes]) -> None:
    """What curves are, below all panels."""
    by_label = _named(every)
    if by_label:
        ncols = 4 if max(map(len, by_label)) <= NARROW else 2
        figure.legend(
            list(by_label.values()),
            list(by_label),
            fontsize=8,
            loc="outside lower center",
            ncols=ncols,
        )
