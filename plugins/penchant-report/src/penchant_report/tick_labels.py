"""Labels of ticks that do not run into each other: fewer of them, or upright names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penchant_report.figure_faults import box_of, compute_layout

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

APART = 0.04  # inches between the labels of neighbouring ticks
FEWER = (6, 5, 4, 3, 2)


class Ticks:
    """The ticks of a figure as they were drawn."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self.drawn: list[tuple[Any, Any, Any]] = [
            (axis, axis.get_major_locator(), axis.get_major_formatter())
            for axes in figure.axes
            for axis in (axes.xaxis, axes.yaxis)
        ]

    def reset(self) -> None:
        """Draw them as they were."""
        for axis, locator, formatter in self.drawn:
            axis.set_major_locator(locator)
            axis.set_major_formatter(formatter)
            if axis.axis_name == "x":
                axis.set_tick_params(rotation=0)

    def thin(self) -> None:
        """Leave out, or turn, what runs into each other; the figure has been laid out."""
        turned = False
        for axis, _, _ in self.drawn:
            if axis.axes.get_visible() and axis.axes.axison and _crowded(axis):
                turned |= _thin(axis)
        if turned:
            compute_layout(self.figure)


def labels_of(axis: Any) -> list[Text]:
    """The labels of ticks in view, in their order."""
    ticks = [tick for tick in axis._update_ticks() if tick.label1.get_visible()]
    return [tick.label1 for tick in ticks if tick.label1.get_text().strip()]


def _crowded(axis: Any) -> bool:
    boxes = [box for label in labels_of(axis) if (box := box_of(label)) is not None]
    if axis.axis_name == "x":
        spans = sorted((box.x0, box.x1) for box in boxes)
    else:
        spans = sorted((box.y0, box.y1) for box in boxes)
        spans = [(low, high - 2 * APART) for low, high in spans]
    return any(second[0] - first[1] < APART for first, second in zip(spans, spans[1:]))


def _thin(axis: Any) -> bool:
    """Make an axis readable; True if that changes how much room it needs."""
    from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator

    locator = axis.get_major_locator()
    if isinstance(locator, FixedLocator):
        return _thin_names(axis)
    for count in FEWER:
        if axis.get_scale() == "log":
            axis.set_major_locator(LogLocator(numticks=count))
        elif axis.get_scale() == "linear":
            axis.set_major_locator(MaxNLocator(count))
        if not _crowded(axis):
            break
    return False


def _thin_names(axis: Any) -> bool:
    """Names are turned where they fit so; else every second, third, ... is left."""
    turned = False
    texts = [label.get_text() for label in labels_of(axis)]
    if axis.axis_name == "x" and max(map(len, texts), default=0) > 3:
        axis.set_tick_params(rotation=90)
        turned = True
        if not _crowded(axis):
            return turned
    locations: Any = axis.get_major_locator()()
    formatter = axis.get_major_formatter()
    names = formatter.format_ticks(locations)
    for every in range(2, len(locations) + 1):
        axis.set_ticks(locations[::every], names[::every])
        if not _crowded(axis):
            break
    return turned
