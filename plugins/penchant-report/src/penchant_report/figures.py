"""Figures of a result, as SVG, or as PNG where that would be large; and its headline."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from penchant.components.targets import resolve
from penchant.errors import Error
from penchant.plugins.discovery import Plugins

from penchant_report.figure_layout import lay_out
from penchant_report.installed import declared_headline, drawing_of, refuse_untabled
from penchant_report.run_rows import is_by_step
from penchant_report.step_curves import NAME, over_steps
from penchant_report.table_figures import figures_of_tables

STYLE = Path(__file__).with_name("penchant.mplstyle")
LARGEST_SVG = 400_000  # bytes: thousands of points are a picture, not a drawing
PNG_DPI = 200


WIDTHS = {"column": 3.25, "text": 6.75}  # inches: one and two columns of a page


@contextlib.contextmanager
def figure_style(*, ours: bool = True) -> Iterator[None]:
    """The style that figures are drawn in: ours, or the user's own `rcParams`."""
    import matplotlib
    import matplotlib.style

    if not ours:
        yield
        return
    # Axes without an explicit style otherwise take the user's own settings.
    with matplotlib.rc_context(), matplotlib.style.context(["default", str(STYLE)]):
        matplotlib.rcParams["backend"] = "agg"
        yield


def figures_of(target: Any, result: Any, *, style: bool = True) -> dict[str, Any]:
    """The figures of a result, by name, in the order in which they are to be seen.

    Args:
        target: The function that draws, or its name, of an installed probe; empty where the tables
            are drawn.
        result: What is drawn.
        style: Draw in our style; else in the user's own `rcParams`.

    Returns:
        Figures by name.
    """
    draw = resolve(target, "the figures") if target else figures_of_tables
    with figure_style(ours=style):
        # Drawing must not change what was measured.
        drawn = draw(result._read_only())

    if not isinstance(drawn, dict):
        kind = type(drawn).__name__
        raise Error(f"figures must be a dict of names, found {kind}")
    # What the probe draws is of the last state.
    if is_by_step(result) and result.quantities:
        with figure_style(ours=style):
            return {NAME: over_steps(result), **drawn}
    return drawn


def figures_of_result(result: Any, *, style: bool = True) -> dict[str, Any]:
    """The figures of a result, drawn now; refused where there is nothing to draw from."""
    if result.status == "failed":
        raise Error(f"this job failed, so that it has no figures: {result.error}")
    stored = result.record.get("figures") or result.record.get("about")
    if not result.arrays and stored:
        raise Error("this result was read without its arrays, which figures are drawn from")
    target = drawing_of(result)
    refuse_untabled(result)
    if not target and not result.tables:
        raise Error("this result has no figures: its probe draws none, and it has no tables")
    return figures_of(target, result, style=style)


def resized(figure: Any, width: float | str) -> Any:
    """A figure laid out for another width.

    Args:
        figure: The figure.
        width: Inches, or "column" and "text" for one and two columns of a page.

    Returns:
        The same figure.
    """
    inches = WIDTHS.get(width, width) if isinstance(width, str) else width
    if isinstance(inches, str):
        raise Error(f"width must be inches, 'column' or 'text', found {width!r}")
    return lay_out(figure, inches)


def headline_of(result: Any, plugins: Plugins | None = None) -> str:
    """What a probe says of its result in one sentence; empty where it says nothing.

    The sentence is one of those that the probe declares, chosen by a quantity; or it comes from a
    function `headline(result)` beside the function that draws.
    """
    declared = declared_headline(result, plugins)
    if declared is not None:
        sentences = attrs.asdict(declared)
        quantity = result.quantities.get(sentences.pop("quantity"))
        known = quantity is not None and not quantity.missing
        return str(quantity.sentence(**sentences)) if known else ""
    target = drawing_of(result, plugins)
    if not target:
        return ""
    module = inspect.getmodule(resolve(target, "the figures"))
    headline = getattr(module, "headline", None)
    return "" if headline is None else headline(result) or ""


def picture(figure: Any, *, largest: int = LARGEST_SVG, dpi: float = PNG_DPI) -> tuple[str, bytes]:
    """A figure as a file, the same bytes for the same figure.

    Args:
        figure: The figure.
        largest: Bytes of a drawing above which it is saved as a PNG picture.
        dpi: Resolution of that picture.

    Returns:
        The ending of the file, and its content.
    """
    # The style again: some of it is read when a figure is saved.
    with figure_style():
        content = _saved(figure, "svg")
        if len(content) <= largest:
            return "svg", content
        return "png", _saved(figure, "png", dpi=dpi)


def as_pdf(figure: Any) -> bytes:
    """A figure as PDF, the same bytes for the same figure."""
    with figure_style():
        return _saved(figure, "pdf")


def _saved(figure: Any, ending: str, **more: Any) -> bytes:
    file = io.BytesIO()
    # A date would make every file another one.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending, {})
    figure.savefig(file, format=ending, metadata=metadata, **more)
    return file.getvalue()


def title_of(figure: Any) -> str:
    """What stands over a figure, or over its first panel."""
    titles = [figure.get_suptitle()]
    for axes in figure.axes:
        titles.append(axes.get_title())
    title = next(filter(None, titles), "")
    words = title.split()
    return " ".join(words)
