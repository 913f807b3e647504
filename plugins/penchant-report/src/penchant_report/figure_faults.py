"""What a reader of a printed figure stumbles over: text cut off, text over text, axes too small.

Everything is measured on the figure as it is drawn, in inches, not guessed from its size.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

LEAST = 0.6  # inches, of the sides of axes
PICTURE = 0.5  # of those that hold a picture, which has no numbers beside it
COLLAPSED = "constrained_layout not applied"  # what matplotlib warns of where axes have no room
TOUCHING = 0.012  # inches, by which boxes of neighbouring texts may overlap: they have a margin


class Fault(NamedTuple):
    """One fault: its kind, and where it is."""

    kind: str  # "outside", "small" or "overlap"
    where: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}"


def faults(figure: Figure) -> list[Fault]:
    """What is wrong with a figure as it is drawn; empty where it can be read.

    Args:
        figure: The figure; it is laid out, but not saved.

    Returns:
        Texts outside of the figure, axes with a side under 0.6 inch (pictures: 0.5), and pairs of
        texts that overlap.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("error", COLLAPSED)
        try:
            figure.draw_without_rendering()
        except UserWarning:
            return [Fault("small", "axes without any room") for _ in figure.axes]
    shown = [(text, box) for text in texts(figure) if (box := box_of(text)) is not None]
    return [*_outside(figure, shown), *_small(figure), *_overlapping(figure, shown)]


def compute_layout(figure: Figure) -> None:
    """Lay a figure out, without the time of drawing it; where it has no room, nothing moves."""
    engine = figure.get_layout_engine()
    if engine is not None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", COLLAPSED)
            engine.execute(figure)


def texts(figure: Figure) -> list[Text]:
    """All texts that are seen: titles, labels, ticks, legends, and what stands in the axes."""
    from matplotlib.text import Text

    seen = []
    ticks = _ticks_in_view(figure)
    for text in figure.findobj(Text):
        if not (text.get_visible() and text.get_text().strip()):
            continue
        if ticks.get(id(text), True) and _is_shown(text):
            seen.append(text)
    return seen


def _ticks_in_view(figure: Figure) -> dict[int, bool]:
    """Labels of axes and ticks, and whether they are drawn: there are ticks beyond the view."""
    state = {}
    for axes in figure.axes:
        both: tuple[Any, ...] = (axes.xaxis, axes.yaxis)
        for axis in both:
            shown = axes.get_visible() and axes.axison and axis.get_visible()
            state[id(axis.offsetText)] = state[id(axis.label)] = shown
            every = {*axis.get_major_ticks(), *axis.get_minor_ticks()}
            drawn = set(axis._update_ticks()) if shown else set()
            for tick in every:
                for label in (tick.label1, tick.label2):
                    state[id(label)] = tick in drawn
    return state


def _is_shown(text: Text) -> bool:
    """Is what it belongs to shown?"""
    return text.axes is None or text.axes.get_visible()


def box_of(text: Text) -> Bbox | None:
    """Where a text is, in inches; None where it is nowhere."""
    # That of a part of a figure is the whole one.
    figure: Any = text.figure.figure
    box = text.get_window_extent()
    if box.width <= 0 or box.height <= 0:
        return None
    return box.transformed(figure.dpi_scale_trans.inverted())


def _outside(figure: Figure, shown: list[tuple[Text, Bbox]]) -> Iterator[Fault]:
    width, height = figure.get_size_inches()
    for text, box in shown:
        beyond = max(-box.x0, -box.y0, box.x1 - width, box.y1 - height)
        if beyond > TOUCHING:
            yield Fault("outside", f"{text.get_text()!r} by {beyond:.2f} inch")


def _small(figure: Figure) -> Iterator[Fault]:
    for axes in figure.axes:
        if not axes.get_visible():
            continue
        # The room that they have: a long picture need not fill it.
        width, height = figure.get_size_inches() * axes.get_position(original=True).size
        sides = [width, height]
        if is_bar(axes):
            sides.remove(min(sides))
        least = PICTURE if is_picture(axes) else LEAST
        if min(sides) < least:
            yield Fault("small", f"axes of {width:.2f} by {height:.2f} inch")


def is_bar(axes: Axes) -> bool:
    """Is it the scale of colours beside a picture?"""
    return axes.get_label() == "<colorbar>"


def is_picture(axes: Axes) -> bool:
    """Is it a picture or a thumbnail, without numbers beside it?"""
    return not axes.axison or not (len(axes.get_xticks()) or len(axes.get_yticks()))


def _overlapping(figure: Figure, shown: list[tuple[Text, Bbox]]) -> Iterator[Fault]:
    for (first, one), (second, other) in itertools.combinations(shown, 2):
        across = min(one.x1, other.x1) - max(one.x0, other.x0)
        down = min(one.y1, other.y1) - max(one.y0, other.y0)
        if min(across, down) > TOUCHING:
            yield Fault("overlap", f"{first.get_text()!r} and {second.get_text()!r}")
