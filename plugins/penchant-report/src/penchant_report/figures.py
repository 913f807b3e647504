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

STYLE = Path(__file__).with_name("penchant.mplstyle")
LARGEST_SVG = 400_000  # bytes: thousands of points are a picture, not a drawing


@contextlib.contextmanager
def figure_style() -> Iterator[None]:
    """The style that every figure is drawn in."""
    import matplotlib
    import matplotlib.style

    # Axes without an explicit style otherwise take the user's own settings.
    with matplotlib.rc_context(), matplotlib.style.context(["default", str(STYLE)]):
        matplotlib.rcParams["backend"] = "agg"
        yield


def figures_of(target: Any, result: Any) -> dict[str, Any]:
    """The figures of a result, by name, in the order in which they are to be seen."""
    draw = resolve(target, "the figures")
    # Drawing must not change what was measured.
    arrays = {name: _locked(array) for name, array in result.arrays.items()}
    shown = attrs.evolve(result, arrays=arrays)
    with figure_style():
        found = draw(shown)

    if not isinstance(found, dict):
        kind = type(found).__name__
        raise Error(f"figures must be a dict of names, found {kind}")
    return found


def figures_of_result(result: Any) -> dict[str, Any]:
    """The figures of a result, drawn now; refused where there is nothing to draw from."""
    target = result.record.get("figures")
    if not target:
        raise Error("this result has no figures: its probe draws none")
    if not result.arrays:
        raise Error("this result was read without its arrays, which figures are drawn from")
    return figures_of(target, result)


def headline_of(result: Any) -> str:
    """What a probe says of its result in one sentence; empty where it says nothing.

    The sentence comes from a function `headline(result)` beside the function that draws.
    """
    target = result.record.get("figures")
    if not target:
        return ""
    module = inspect.getmodule(resolve(target, "the figures"))
    headline = getattr(module, "headline", None)
    return "" if headline is None else headline(result) or ""


def _locked(array: Any) -> Any:
    """A view that cannot be written to: figures show numbers, they do not change them."""
    view = array.view()
    view.flags.writeable = False
    return view


def picture(figure: Any) -> tuple[str, bytes]:
    """A figure as a file: its ending and its content, the same bytes for the same figure."""
    # The style again: some of it is looked up when a figure is saved.
    with figure_style():
        content = _saved(figure, "svg")
        if len(content) <= LARGEST_SVG:
            return "svg", content
        return "png", _saved(figure, "png")


def _saved(figure: Any, ending: str) -> bytes:
    file = io.BytesIO()
    # A date would make every file another one.
    metadata = {"Date": None} if ending == "svg" else {}
    figure.savefig(file, format=ending, metadata=metadata)
    return file.getvalue()


def title_of(figure: Any) -> str:
    """What stands over a figure, or over its first panel."""
    titles = [figure.get_suptitle()]
    for axes in figure.axes:
        titles.append(axes.get_title())
    found = next(filter(None, titles), "")
    words = found.split()
    return " ".join(words)
