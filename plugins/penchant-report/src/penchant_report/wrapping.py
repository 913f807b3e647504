"""Titles and labels in lines that are no longer than what they stand at."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

LEAST = 0.6  # inches: no line is broken shorter
MARGIN = 0.2  # inches
_WORD = re.compile(r"(?:\$[^$]*\$|[^\s$])+")  # a formula is never broken


class Wrapping:
    """The titles and labels of a figure as they were written."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self.written: dict[Text, str] = {}
        self.panels: dict[Text, Axes] = {}
        for axes in figure.axes:
            for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
                self.written[text] = text.get_text()
                self.panels[text] = axes
        title: Text | None = getattr(figure, "_suptitle", None)
        if title is not None:
            self.written[title] = title.get_text()

    def rename(self, text: Text, written: str) -> None:
        """Let a title or label be another one."""
        self.written[text] = written
        text.set_text(written)

    def reset(self) -> None:
        """Write them as they were."""
        for text, written in self.written.items():
            text.set_text(written)

    def fit(self) -> None:
        """Break each where it is too long for its panel, which has been laid out."""
        for text, written in self.written.items():
            if written.strip():
                fit(text, written, self._room(text))

    def _room(self, text: Text) -> float:
        """How long a line may be, in pixels."""
        across, down = self.figure.get_size_inches() - MARGIN
        axes = self.panels.get(text)
        if axes is not None:
            rows, columns = geometry(axes)
            box = axes.get_window_extent()
            # What is centred over axes beside the middle has room for twice the shorter side.
            middle = (box.x0 + box.x1) / 2 / self.figure.dpi
            across = min(across / columns, 2 * min(middle, across + MARGIN - middle) - MARGIN / 2)
            if rows > 1 or axes.get_subplotspec() is None:
                down = box.height / self.figure.dpi + 0.1
        is_upright = axes is not None and text is axes.yaxis.label
        return float(max(LEAST, down if is_upright else across)) * self.figure.dpi


def geometry(axes: Axes) -> tuple[int, int]:
    """Rows and columns of the grid that axes are in."""
    spec = axes.get_subplotspec()
    return spec.get_gridspec().get_geometry() if spec else (1, 1)


def fit(text: Text, written: str, room: float) -> None:
    """Break a text at spaces, so that its lines are within so many pixels."""
    lines: list[str] = []
    for paragraph in written.split("\n"):
        line = ""
        for word in _WORD.findall(paragraph):
            longer = f"{line} {word}".strip()
            if line and _length(text, longer) > room:
                lines.append(line)
                longer = word
            line = longer
        lines.append(line)
    text.set_text("\n".join(lines))


def _length(text: Text, line: str) -> float:
    text.set_text(line)
    box = text.get_window_extent()
    return float(max(box.width, box.height))
