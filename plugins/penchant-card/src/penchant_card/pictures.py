"""The small picture of a row: the first panel of a probe's lead figure."""

from __future__ import annotations

import io
from typing import Any

from penchant.results.runs import Run
from penchant_report.figures import figure_style, figures_of
from penchant_report.installed import drawing_of

LARGEST_SVG = 60_000  # bytes of a drawing, above which it is a picture
DPI = 160
MARGIN = 0.04  # inches around the panel
WIDE = 2.7  # inches of a panel, above which the figure is made smaller: its letters stay
LEAST = 0.55  # of its size


def small_picture(run: Run, job: str, *, ending: str = "svg") -> tuple[str, bytes] | None:
    """The first panel of the lead figure of a job.

    Args:
        run: The run.
        job: The id of the job.
        ending: svg, or png where no drawing is wanted.

    Returns:
        The ending and the content of the file; None where there is no figure.
    """
    try:
        result = run.result(job)
        figures = figures_of(drawing_of(result, run.plugins), result)
    except Exception:  # a figure that fails is a warning of its job, and no reason to lose a card
        return None
    figure = next(iter(figures.values()), None)
    if figure is None or not figure.axes:
        return None
    with figure_style():
        panel = _first_panel(figure)
        if ending == "svg":
            content = _saved(figure, "svg", panel)
            if len(content) <= LARGEST_SVG:
                return "svg", content
        return "png", _saved(figure, "png", panel)


def _first_panel(figure: Any) -> Any:
    """The box of the first axes with its labels, in inches."""
    from matplotlib.transforms import Bbox

    # What belongs to all panels would be cut.
    for legend in list(figure.legends):
        legend.remove()
    figure.suptitle("")
    inches = _panel_inches(figure)
    if inches is None:
        return "tight"
    if inches.width > WIDE:
        figure.set_size_inches(figure.get_size_inches() * max(LEAST, WIDE / inches.width))
        inches = _panel_inches(figure)
    return Bbox(inches.padded(MARGIN).extents.reshape(2, 2))


def _panel_inches(figure: Any) -> Any:
    figure.draw_without_rendering()
    box = figure.axes[0].get_tightbbox()
    return None if box is None else box.transformed(figure.dpi_scale_trans.inverted())


def _saved(figure: Any, ending: str, panel: Any) -> bytes:
    file = io.BytesIO()
    metadata = {"Date": None} if ending == "svg" else {}
    figure.savefig(file, format=ending, bbox_inches=panel, metadata=metadata, dpi=DPI)
    return file.getvalue()
