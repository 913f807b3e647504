"""The lead figures of a probe: one for each group, on one scale, so that groups can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
from penchant.results.job_folder import JobFolder
from penchant.results.runs import Run

from penchant_report.answers import Answer
from penchant_report.drawing import ran_out_of_time
from penchant_report.figures import figures_of, picture, title_of
from penchant_report.hover_points import points_of
from penchant_report.installed import drawing_of
from penchant_report.pages import embedded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_GROUPS = 6  # that have a lead figure
LARGEST_SVG = 120_000  # bytes, so that the page of a large run stays small
PNG_DPI = 100
WIDE = 1.9  # width over height from which on a figure needs a wide column


@attrs.frozen
class LeadFigure:
    """The first figure of a group, as the page shows it.

    Attributes:
        label: The group.
        job: The job that it is drawn from; its other figures are in the section of that job.
        caption: What is drawn.
        alt: What stands for it where pictures are not shown.
        ending: `svg` or `png`.
        data: The picture.
        wide: It has panels side by side, which would be too small in a narrow column.
        points: Values of its curves and where they are.
    """

    label: str
    job: str
    caption: str
    alt: str
    ending: str
    data: str
    wide: bool = False
    points: list[dict[str, Any]] = attrs.field(factory=list)


def lead_figures(run: Run, answer: Answer) -> list[LeadFigure]:
    """The lead figure of each group, with equal limits where the figures have the same axes.

    Args:
        run: The run.
        answer: What a probe found.

    Returns:
        One for each of the first groups whose probe draws figures.
    """
    drawn = []
    for group in answer.groups[:MOST_GROUPS]:
        entry = group.entries[0]
        figure = _lead_figure(run, entry.id)
        if figure is not None:
            drawn.append((group.label, entry.id, figure))
    align([figure for _, _, figure in drawn])
    figures = []
    for label, job, figure in drawn:
        ending, content = picture(figure, largest=LARGEST_SVG, dpi=PNG_DPI)
        caption = str(figure.get_label() or "")
        alt = title_of(figure) or caption
        data = embedded(content, ending)
        across, high = figure.get_size_inches()
        wide = bool(across > WIDE * high)
        points = points_of(figure, content)
        figures.append(LeadFigure(label, job, caption, alt, ending, data, wide, points))
    return figures


def _lead_figure(run: Run, job: str) -> Figure | None:
    # They would take as long again.
    if ran_out_of_time(JobFolder.of(run.folder, job).path):
        return None
    try:
        result = run.result(job)
        figures = figures_of(drawing_of(result, run.plugins), result)
    except Exception:  # a figure that fails is a warning of its job, and no reason to lose a page
        return None
    return next(iter(figures.values()), None)


def align(figures: Sequence[Figure]) -> None:
    """Give axes that stand at the same position in several figures the same limits."""
    if len({len(figure.axes) for figure in figures}) != 1:
        return
    for axes in zip(*(figure.axes for figure in figures)):
        if not all(map(_has_scale, axes)):
            continue
        if len({(each.get_xscale(), each.get_yscale()) for each in axes}) > 1:
            continue
        for each in axes:
            # Ticks that were chosen for one group stay with their limits.
            each.set_xlim(*_union([other.get_xlim() for other in axes]))
            each.set_ylim(*_union([other.get_ylim() for other in axes]))


def _has_scale(axes: Axes) -> bool:
    """Do the axes show numbers, not a picture or a scale of colours?"""
    return bool(axes.axison and not axes.images and axes.get_label() != "<colorbar>")


def _union(limits: Sequence[tuple[float, float]]) -> tuple[float, float]:
    first, last = limits[0]
    # An axis may run downwards.
    lows = [min(pair) for pair in limits]
    highs = [max(pair) for pair in limits]
    return (max(highs), min(lows)) if first > last else (min(lows), max(highs))
