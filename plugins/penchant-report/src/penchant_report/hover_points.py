"""Points of a figure and where they are in its picture, so that a page can say their values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

MOST_POINTS = 300  # of a figure
POINTS = 72.0  # of a drawing, in an inch
PADDING = 0.1  # inches around a picture that is saved with a tight box
_NUMBER = rb"(-?[\d.]+)"
_SIZE = re.compile(rb'viewBox="0 0 %b %b"' % (_NUMBER, _NUMBER))
_PANEL = re.compile(rb'id="axes_1">\s*<g id="patch_\d+">\s*<path d="M %b %b' % (_NUMBER, _NUMBER))


def points_of(figure: Figure, saved: bytes) -> list[dict[str, Any]]:
    """The points of all curves of a figure.

    Args:
        figure: The figure.
        saved: Its picture: where things are in a drawing is read from it.

    Returns:
        For each curve its name, and points: from the left and from the top, as shares of the
        picture, and the two values as text. Of long curves every second, third, ... point.
    """
    drawn = [(axes, line, name) for axes in figure.axes for line, name in _curves(axes)]
    every = max(1, math.ceil(sum(_length(line) for _, line, _ in drawn) / MOST_POINTS))
    left, top, width, height = _saved_box(figure, saved)
    series = []
    for axes, line, name in drawn:
        data = np.column_stack([line.get_xdata(), line.get_ydata()]).astype(np.float64)[::every]
        places = axes.transData.transform(data) / figure.dpi
        points = [
            [
                round(float((across - left) / width), 4),
                round(float((top - up) / height), 4),
                f"{_label(axes.xaxis, 'x')} {_number(axes.xaxis, x)}",
                f"{_label(axes.yaxis, 'y')} {_number(axes.yaxis, y)}",
            ]
            for (across, up), (x, y) in zip(places, data)
            if np.isfinite([across, up, x, y]).all()
        ]
        if points:
            series.append({"name": name, "points": points})
    return series


def _saved_box(figure: Figure, saved: bytes) -> tuple[float, float, float, float]:
    """Left, top, width and height of what of a figure was saved, in inches."""
    size, panel = _SIZE.search(saved), _PANEL.search(saved)
    shown = [axes for axes in figure.axes if axes.get_visible() and axes.axison]
    if size is None or panel is None or not shown:
        box = figure.get_tightbbox().padded(PADDING)
        return box.x0, box.y1, box.width, box.height
    width, height = (float(number) / POINTS for number in size.groups())
    # The lower left corner of the first panel: in the drawing, and in the figure.
    across, down = (float(number) / POINTS for number in panel.groups())
    corner = shown[0].get_window_extent()
    return corner.x0 / figure.dpi - across, corner.y0 / figure.dpi + down, width, height


def checked(given: object) -> list[dict[str, Any]]:
    """The same as a run folder holds it: numbers and texts only, else nothing.

    >>> checked([{"name": "a", "points": [[0.5, 0.5, "x 1", "y 2"], [7, 0.5, "", ""]]}])
    [{'name': 'a', 'points': [[0.5, 0.5, 'x 1', 'y 2']]}]
    """
    series = []
    for each in given if isinstance(given, list) else ():
        if not isinstance(each, Mapping) or not isinstance(each.get("name"), str):
            continue
        points = each.get("points")
        right = [point for point in points if _is_point(point)] if isinstance(points, list) else []
        series.append({"name": each["name"], "points": right[:MOST_POINTS]})
    return series


def _is_point(given: object) -> bool:
    if not isinstance(given, list) or len(given) != 4:
        return False
    *place, x, y = given
    within = all(isinstance(share, float | int) and 0 <= share <= 1 for share in place)
    return within and isinstance(x, str) and isinstance(y, str)


def _curves(axes: Axes) -> Iterator[tuple[Line2D, str]]:
    """The curves of a panel with their names; lines that only help to read it are none."""
    if not axes.get_visible() or not axes.axison:
        return
    of_container = {
        id(container[0]): str(container.get_label())
        for container in axes.containers
        if type(container).__name__ == "ErrorbarContainer" and container[0] is not None
    }
    for line in axes.get_lines():
        name = of_container.get(id(line), str(line.get_label()))
        along = line.get_transform() == axes.transData and _length(line) > 1
        is_bar = name.startswith("_") and line.get_linestyle() == "None" and not of_container
        if along and not is_bar and line.get_marker() not in ("_", "|"):
            yield line, "" if name.startswith("_") else name


def _length(line: Line2D) -> int:
    return len(np.asarray(line.get_xdata()))


def _label(axis: Axis, default: str) -> str:
    words = axis.get_label_text().replace("\n", " ")
    return words if 0 < len(words) <= 40 else default


def _number(axis: Axis, value: float) -> str:
    """A value as text; a place that has a name is called by it."""
    from matplotlib.ticker import FixedFormatter, FixedLocator

    locator: Any = axis.get_major_locator()
    formatter: Any = axis.get_major_formatter()
    if isinstance(locator, FixedLocator) and isinstance(formatter, FixedFormatter):
        places = [float(place) for place in locator()]
        names = dict(zip(places, formatter.seq))
        if names.get(value):
            return str(names[value])
    return f"{value:.4g}"
