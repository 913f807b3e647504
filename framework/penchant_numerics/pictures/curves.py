"""Curves of tables: numbers along a named axis, with their errors and nulls.

A table here is anything with the attributes of a `penchant.Table`. Only modules that draw import
this one, because it imports matplotlib.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from penchant_numerics.pictures.pictures import FAINT, GREY, SIZE, Array, log_ticks, palette

PANEL = 3.4  # inches across, of each of several panels
MOST_PANELS = 4  # whose width a figure has; more are narrower
MARKERS = "os^dvP*X"
NARROW = 22  # characters of a label up to which four stand beside each other
MANY = 25  # coordinates from which on points have a band in place of bars


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
        for line in _lines(own, x):
            _draw(panel, line, x)
        if reference is not None:
            _draw_level(panel, reference, x, level_label)
        log_ticks(panel)
    every[0].set_ylabel(y)
    _legend(figure, every, inside=axes is not None)
    return figure


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


def _draw(axes: Axes, line: Line, x: str) -> None:
    """A curve with its errors, and its null dashed in the same colour."""
    table, colour, label = line.table, line.colour, line.label or None
    positions, are_names = _positions(axes, table.axes[x])
    order = np.argsort(positions)
    values = np.asarray(table.values, dtype=np.float64)[order]
    errors = None if table.error is None else np.broadcast_to(table.error, values.shape)[order]
    where = positions[order]
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
    positions = np.arange(len(coordinates))
    axes.set_xticks(positions, coordinates)
    return positions.astype(np.float64), True


def _band(axes: Axes, where: Array, values: Array, errors: Array, colour: str) -> None:
    low, high = values - errors, values + errors
    if axes.get_yscale() == "log":
        # a logarithmic axis cannot show zero: the band ends far under the curve instead
        low = np.maximum(low, values / 10)
    axes.fill_between(where, low, high, color=colour, alpha=0.2, linewidth=0)


def _legend(figure: Figure, every: Sequence[Axes], *, inside: bool) -> None:
    """Names once for all panels, where they cover no point."""
    handles, labels = every[0].get_legend_handles_labels()
    if not labels:
        return
    # Curves first, what they are compared with after them.
    pairs = sorted(zip(handles, labels), key=lambda pair: isinstance(pair[0], Line2D))
    handles, labels = [handle for handle, _ in pairs], [label for _, label in pairs]
    if inside:
        every[0].legend(handles, labels, frameon=False, fontsize=8)
    elif len(every) > 1:
        figure.legend(handles, labels, loc="outside right upper")
    else:
        ncols = 4 if max(map(len, labels)) <= NARROW else 2
        figure.legend(handles, labels, fontsize=8, loc="outside lower center", ncols=ncols)
