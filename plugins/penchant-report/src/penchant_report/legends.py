"""Legends in rows below the panels, where beside or in them is no room."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from penchant_report.figure_faults import compute_layout
from penchant_report.wrapping import fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

COVERED = 0.35  # of its axes a legend may cover
BELOW = 0.05  # inches between a panel and its legend
COMPACT = {"handlelength": 1.4, "columnspacing": 1.0, "labelspacing": 0.3, "borderaxespad": 0.2}


class Written(NamedTuple):
    """What a legend says, and of which axes; those of the figure have none."""

    axes: Axes | None
    handles: list[Any]
    labels: list[str]
    title: str
    size: float
    is_beside: bool


class Legends:
    """The legends of a figure, which can be put elsewhere."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        own = [(None, legend) for legend in figure.legends]
        inside = [(axes, legend) for axes in figure.axes if (legend := axes.get_legend())]
        self.written = [_written(figure, axes, legend) for axes, legend in [*own, *inside]]
        if len({tuple(each.labels) for each in self.written}) == 1:
            # The same in every panel is one legend, of them all.
            self.written = self.written[:1]
        self.legends: list[Legend] = [*figure.legends, *(legend for _, legend in inside)]

    def place(self) -> None:
        """Put each where it was, those beside panels below."""
        for legend in self.legends:
            legend.remove()
        self.legends = []
        for each in self.written:
            if each.axes is None or (each.is_beside and len(self.written) == 1):
                self._below_all(each)
            elif each.is_beside:
                self._below(each, each.axes)
            else:
                self.legends.append(each.axes.legend(**_texts(each), **COMPACT))

    def move(self) -> None:
        """Put those below that leave their panel, or cover much of it; it has been laid out."""
        moved = False
        for number, each in enumerate(self.written):
            legend = self.legends[number]
            if each.axes is None or each.is_beside or _has_room(legend, each.axes):
                continue
            moved = True
            legend.remove()
            last = self.legends[number + 1 :]
            self.legends[number:] = []
            if len(self.written) == 1:
                self._below_all(each)
            else:
                self._below(each, each.axes)
            self.legends += last
        if moved:
            compute_layout(self.figure)

    def _below_all(self, each: Written) -> None:
        """Below the figure, in as many columns as fit."""
        width = self.figure.get_size_inches()[0] * self.figure.dpi
        for columns in range(min(len(each.labels), 6), 0, -1):
            legend = self.figure.legend(
                **_texts(each), loc="outside lower center", ncols=columns, **COMPACT
            )
            if columns == 1 or legend.get_window_extent().width <= width:
                break
            legend.remove()
        _wrap(legend, width)
        self.legends.append(legend)

    def _below(self, each: Written, axes: Axes) -> None:
        """Below one panel, under its label."""
        from matplotlib.transforms import ScaledTranslation

        dpi = self.figure.dpi
        box, tight = axes.get_window_extent(), axes.get_tightbbox()
        under = (box.y0 - tight.y0) / dpi + BELOW if tight is not None else BELOW
        where = axes.transAxes + ScaledTranslation(0, -under, self.figure.dpi_scale_trans)
        spec = axes.get_subplotspec()
        columns_of_grid = spec.get_gridspec().ncols if spec else 1
        room = self.figure.get_size_inches()[0] * dpi / columns_of_grid
        for columns in range(min(len(each.labels), 6), 0, -1):
            legend = axes.legend(
                **_texts(each),
                loc="upper center",
                bbox_to_anchor=(0.5, 0),
                bbox_transform=where,
                ncols=columns,
                **COMPACT,
            )
            if columns == 1 or legend.get_window_extent().width <= room:
                break
        _wrap(legend, room)
        self.legends.append(legend)


def _written(figure: Figure, axes: Axes | None, legend: Legend) -> Written:
    labels = [text.get_text() for text in legend.get_texts()]
    known = _handles(figure.axes if axes is None else [axes])
    handles = [known.get(label, shown) for label, shown in zip(labels, legend.legend_handles)]
    title = legend.get_title().get_text()
    size = float(legend.get_texts()[0].get_fontsize()) if labels else 7.0
    is_beside = axes is not None and getattr(legend, "_bbox_to_anchor", None) is not None
    return Written(axes, handles, labels, title, size, is_beside)


def _handles(panels: Iterable[Axes]) -> dict[str, Any]:
    """What is drawn, by its label."""
    known: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        known = {**dict(zip(labels, handles)), **known}
    return known


def _texts(each: Written) -> dict[str, Any]:
    return {
        "handles": each.handles,
        "labels": each.labels,
        "title": each.title or None,
        "fontsize": each.size,
        "title_fontsize": each.size,
        "frameon": False,
    }


def _has_room(legend: Legend, axes: Axes) -> bool:
    box, panel = legend.get_window_extent(), axes.get_window_extent()
    within = box.width <= panel.width and box.height <= panel.height
    return within and box.width * box.height <= COVERED * panel.width * panel.height


def _wrap(legend: Legend, width: float) -> None:
    """Break names that are longer than there is room."""
    beyond = legend.get_window_extent().width - width
    if beyond <= 0:
        return
    for text in legend.get_texts():
        fit(text, text.get_text(), text.get_window_extent().width - beyond)
