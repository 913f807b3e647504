"""Lay a drawn figure out for the width of a page: panels stacked, legends in rows, titles wrapped.

Probes draw for a screen. Here a figure is given a width, and changes until it can be read at that
width: smaller type first, then fewer panels beside each other, and more height.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from penchant_report.figure_faults import Fault, compute_layout, faults, is_bar, is_picture
from penchant_report.legends import Legends
from penchant_report.tick_labels import Ticks
from penchant_report.wrapping import Wrapping

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Largest type in points, by the width in inches from which it is used: title, labels, numbers.
TYPE = ((5.0, (10.0, 9.0, 8.0)), (0.0, (8.0, 7.5, 7.0)))
TALLEST = 9.0  # inches: a page
LOWEST = 0.75  # of the height of a panel is kept where it becomes narrower
NARROWEST = 0.5  # inches across, of a panel
COMFORTABLE = 1.4  # of one with numbers at its axes
TALLER = 1.2
TRIES = 5  # of heights, for each number of panels beside each other


class Panel(NamedTuple):
    """Axes at one position of the grid: those with an axis at the right have two."""

    row: int
    column: int
    axes: list[Axes]
    label: str


def lay_out(figure: Figure, width: float) -> Figure:
    """Lay a figure out anew for a width.

    Args:
        figure: The figure, as it was drawn.
        width: Inches.

    Returns:
        The same figure: the arrangement without faults that has most panels beside each other,
        else that with fewest faults.
    """
    figure.set_layout_engine("constrained")
    _limit_type(figure, width)
    arrangement = _Arrangement(figure)
    tried: list[tuple[int, int, float]] = []
    for beside in arrangement.choices(width):
        height = arrangement.height(beside, width)
        fewest = math.inf
        for _ in range(TRIES):
            found = arrangement.arrange(beside, width, height)
            if not found:
                return figure
            tried.append((len(found), -beside, height))
            has_room = all(fault.kind != "small" for fault in found)
            if height == TALLEST or (has_room and len(found) >= fewest):
                break  # more height does not help
            fewest = len(found)
            height = min(TALLEST, height * TALLER)
    _, beside, height = min(tried)
    arrangement.arrange(-beside, width, height)
    return figure


class _Arrangement:
    """The panels of a figure, which can be put below each other."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self.across, self.down = figure.get_size_inches()
        self.rows = self.columns = 1
        found: dict[tuple[int, int], list[Axes]] = {}
        for axes in figure.axes:
            spec = axes.get_subplotspec()
            if spec is None or is_bar(axes):
                continue
            self.rows, self.columns = spec.get_gridspec().get_geometry()
            position = (spec.rowspan.start, spec.colspan.start)
            found.setdefault(position, []).append(axes)
        self.panels = [
            Panel(*position, axes, axes[0].get_ylabel() or figure.get_supylabel())
            for position, axes in sorted(found.items())
        ]
        self.lines = _lines(self.panels, self.rows)
        _name_axes(figure, self.panels, self.rows)
        self.wrapping = Wrapping(figure)
        self.legends = Legends(figure)
        self.ticks = Ticks(figure)

    def choices(self, width: float) -> Iterator[int]:
        """How many panels may be beside each other: most first, crowded ones last."""
        every = (math.ceil(self.columns / blocks) for blocks in range(1, self.columns + 1))
        possible = [each for each in dict.fromkeys(every) if width / each > NARROWEST]
        wanted = NARROWEST if self._are_pictures() else COMFORTABLE
        return iter(sorted(possible, key=lambda beside: (width / beside < wanted, -beside)))

    def height(self, beside: int, width: float) -> float:
        """Inches, to begin with: those that panels had, less where they become narrower."""
        ratio = (width / beside) / (self.across / self.columns)
        scale = ratio if self._are_pictures() else min(1.0, max(LOWEST, ratio))
        blocks = math.ceil(self.columns / beside)
        return float(min(TALLEST, self.down * scale * blocks))

    def _are_pictures(self) -> bool:
        return all(is_picture(panel.axes[0]) for panel in self.panels)

    def arrange(self, beside: int, width: float, height: float) -> list[Fault]:
        """Arrange so many panels beside each other, and return what is still wrong."""
        self.figure.set_size_inches(width, height)
        self.ticks.reset()
        self.wrapping.reset()
        self._place(beside)
        self.legends.place()
        compute_layout(self.figure)
        self.wrapping.fit()
        compute_layout(self.figure)
        self.legends.move()
        self.ticks.thin()
        return faults(self.figure)

    def _place(self, beside: int) -> None:
        """What was further right comes below, line by line."""
        blocks = math.ceil(self.columns / beside)
        spec = self.figure.add_gridspec(self.rows * blocks, beside)
        first = {panel.row: panel for panel in reversed(self.panels)}
        for panel in self.panels:
            block, column = divmod(panel.column, beside)
            start, tall = self.lines[panel.row]
            row = start * blocks + block * tall + panel.row - start
            for axes in panel.axes:
                axes.set_subplotspec(spec[row, column])
            # Panels that are now at the left have the label and numbers of those that were.
            left = first[panel.row]
            axes = panel.axes[0]
            self.wrapping.rename(axes.yaxis.label, panel.label or ("" if column else left.label))
            if panel is not left and axes.get_shared_y_axes().joined(axes, left.axes[0]):
                axes.tick_params(axis="y", labelleft=not column)


def _name_axes(figure: Figure, panels: list[Panel], rows: int) -> None:
    """Labels of the whole figure become those of its panels, which legends know of."""
    across = figure.get_supxlabel()
    for panel in panels:
        if across and panel.row == rows - 1:
            panel.axes[0].set_xlabel(across)
        if figure.get_supylabel():
            panel.axes[0].set_ylabel(panel.label)
    figure.supxlabel("")
    figure.supylabel("")


def _lines(panels: list[Panel], rows: int) -> dict[int, tuple[int, int]]:
    """Of each row, the first row of its line, and how many rows that has.

    Titles begin a line: rows without them, such as spectra below pictures, belong to those above.
    """
    titled = {panel.row for panel in panels if panel.axes[0].get_title().strip()}
    starts = sorted(titled | {0})
    lines: dict[int, tuple[int, int]] = {}
    for start, end in zip(starts, [*starts[1:], rows]):
        lines |= dict.fromkeys(range(start, end), (start, end - start))
    return lines


def _limit_type(figure: Figure, width: float) -> None:
    """No type is larger than fits such a width."""
    from matplotlib.text import Text

    title, label, number = next(sizes for least, sizes in TYPE if width >= least)
    limits = {id(getattr(figure, "_suptitle", None)): title}
    for axes in figure.axes:
        limits |= {id(each): label for each in (axes.title, axes.xaxis.label, axes.yaxis.label)}
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_tick_params(which="both", labelsize=min(number, _size_of(axis, number)))
    for text in figure.findobj(Text):
        text.set_fontsize(min(text.get_fontsize(), limits.get(id(text), number)))


def _size_of(axis: Axis, default: float) -> float:
    ticks = axis.get_major_ticks()
    return float(ticks[0].label1.get_fontsize()) if ticks else default
