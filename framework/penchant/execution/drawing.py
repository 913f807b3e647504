"""Figures: drawn from a stored result, in one look, each with a caption.

`figures/figures.json` is written last: a job that lacks it, because it was stopped while drawing,
is drawn again by `run` and `report`.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from penchant.components.targets import resolve
from penchant.errors import Error
from penchant.results.files import SCHEMA, atomic, check_name, write_json
from penchant.results.result import Result, read_result, to_json

STYLE = Path(__file__).parent.parent / "results" / "penchant.mplstyle"


@contextlib.contextmanager
def one_look() -> Iterator[None]:
    """The style that every figure is drawn in."""
    import matplotlib
    import matplotlib.style

    # Axes without an explicit style otherwise take the user's own settings.
    with matplotlib.rc_context(), matplotlib.style.context(["default", str(STYLE)]):
        matplotlib.rcParams["backend"] = "agg"
        yield


def figures_of(target: Any, result: Result) -> dict[str, Any]:
    """The figures of a result, by name, in the order in which they are to be seen."""
    draw = resolve(target, "the figures")
    arrays = {name: _locked(array) for name, array in result.arrays.items()}
    shown = attrs.evolve(result, arrays=arrays)
    with one_look():
        found = draw(shown)
    if not isinstance(found, dict):
        raise Error(f"figures must be a dict of names, found {type(found).__name__}")
    return found


def _locked(array: Any) -> Any:
    """A view that cannot be written to: figures show numbers, they do not change them."""
    view = array.view()
    view.flags.writeable = False
    return view


def draw(folder: Path, target: Any, result: Result) -> str:
    """Draw the figures of a job into its folder.

    Args:
        folder: The job's folder.
        target: The function that draws, or its name.
        result: What is drawn.

    Returns:
        What went wrong; empty if nothing did.
    """
    place = folder / "figures"
    try:
        captions = {}
        # The style again: some of it is looked up when a figure is saved.
        with one_look():
            for name, figure in figures_of(target, result).items():
                check_name(name, "figure")
                place.mkdir(exist_ok=True)
                with atomic(place / f"{name}.png") as file:
                    figure.savefig(file, format="png")
                captions[name] = figure.get_label() or ""
        place.mkdir(exist_ok=True)
        # Written even where there are no figures: it says that drawing ended.
        write_json(place / "figures.json", {"schema": SCHEMA, "captions": captions})
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a figure raises, the numbers are safe
        shutil.rmtree(place, ignore_errors=True)
        return f"figures could not be drawn: {type(error).__name__}: {error}"
    return ""


def is_drawn(folder: Path) -> bool:
    """Are the figures of a job all there?"""
    place = folder / "figures"
    # Runs of before captions have pictures only.
    return (place / "figures.json").is_file() or any(place.glob("*.png"))


def draw_missing(folder: Path) -> None:
    """Draw the figures of a stored job that was stopped before it had them."""
    if is_drawn(folder):
        return
    try:
        # Without arrays first: most jobs need nothing drawn.
        result = read_result(folder, arrays=False)
        if result.status != "done" or not result.record.get("figures"):
            return
        result = read_result(folder)
    except Error:
        return  # a job without a result, or with a damaged one, is not done
    problem = draw(folder, result.record["figures"], result)
    if problem and problem not in result.warnings:
        keep_warning(folder, result, problem)


def keep_warning(folder: Path, result: Result, text: str) -> None:
    """Add a warning to a stored result; its arrays stay as they were written.

    Args:
        folder: The job's folder.
        result: The result as it is stored.
        text: The warning.
    """
    warnings = (*result.warnings, text)
    warned = attrs.evolve(result, warnings=warnings)
    record = to_json(warned)
    write_json(folder / "result.json", record)
