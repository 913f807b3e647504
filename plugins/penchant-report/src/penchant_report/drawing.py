"""Figures of a job: drawn from its stored result into its folder, each with a caption.

A figure is `figures/<name>.svg`, or `.png` where that would be large. `figures/figures.json` holds
captions, titles, file names and points in the order in which figures are to be seen; beside each is
the same as PDF. It is written last: a job that lacks it, because it was stopped while drawing, is
drawn again by `run` and `report`.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path
from typing import Any

from penchant.errors import Error
from penchant.execution.failures import TimeLimitError, authors_line
from penchant.execution.queue.limits import time_limit
from penchant.execution.queue.locks import PAUSE
from penchant.execution.queue.tasks import Queue
from penchant.results.files import SCHEMA, atomic, check_name, write_json
from penchant.results.inside import inside
from penchant.results.job_folder import JobFolder
from penchant.results.result import Result
from penchant.results.runs import Run

from penchant_report.figures import as_pdf, figures_of, picture, title_of
from penchant_report.hover_points import points_of
from penchant_report.installed import drawing_of, refuse_untabled
from penchant_report.tables import FOLDER as TABLES
from penchant_report.tables import write_tables

__all__ = ["draw", "draw_missing", "figures_of", "is_drawn"]

FIGURES = "figures"
NOT_DRAWN = "figures could not be drawn"


def draw(folder: Path, target: Any, result: Result) -> str:
    """Draw the figures of a job into its folder.

    Args:
        folder: The job's folder.
        target: The function that draws, or its name; empty where the tables are drawn.
        result: What is drawn.

    Returns:
        What went wrong; empty if nothing did.
    """
    figures_folder = inside(folder, FIGURES)
    # What a kill left half drawn.
    for old in (figures_folder, inside(folder, TABLES)):
        shutil.rmtree(old, ignore_errors=True)
    try:
        record: dict[str, Any] = {"captions": {}, "titles": {}, "files": {}, "points": {}}
        for name, figure in figures_of(target, result).items():
            check_name(name, "figure")
            ending, content = picture(figure)
            file_name = f"{name}.{ending}"
            figures_folder.mkdir(exist_ok=True)
            with atomic(figures_folder / file_name) as file:
                file.write(content)
            # The caption.
            record["captions"][name] = figure.get_label() or ""
            record["titles"][name] = title_of(figure)
            record["files"][name] = file_name
            record["points"][name] = points_of(figure, content)
            # Last, because saving lays the figure out again.
            with atomic(figures_folder / f"{name}.pdf") as file:
                file.write(as_pdf(figure))
        figures_folder.mkdir(exist_ok=True)
        write_tables(folder, result)
        # Written even where there are no figures: it says that drawing ended.
        write_json(figures_folder / "figures.json", {"schema": SCHEMA, **record})
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a figure raises, the numbers are safe
        shutil.rmtree(figures_folder, ignore_errors=True)
        if isinstance(error, TimeLimitError):
            return f"{NOT_DRAWN}: {error}; `penchant report` draws them"
        line = authors_line(error, target)
        where = f" (at {line})" if line else ""
        return f"{NOT_DRAWN}: {type(error).__name__}: {error}{where}"
    return ""


def is_drawn(folder: Path) -> bool:
    """Are the figures of a job all there?"""
    figures_folder = inside(folder, FIGURES)
    record = figures_folder / "figures.json"
    # Runs made before captions existed have PNG pictures only.
    return record.is_file() or any(figures_folder.glob("*.png"))


def ran_out_of_time(folder: Path) -> bool:
    """Has a job no figures because its limit of time ended its drawing?"""
    if is_drawn(folder):
        return False
    with contextlib.suppress(Error):
        warnings = JobFolder(folder).read(arrays=False).warnings
        return any(text.startswith(NOT_DRAWN) and "time_limit" in text for text in warnings)
    return False


def draw_missing(run: Run, job: str) -> str:
    """Draw the figures of a stored job that was stopped before it had them.

    Args:
        run: The run.
        job: The job's id.

    Returns:
        What went wrong, where the result does not say so already; empty if nothing did.
    """
    folder = JobFolder.of(run.folder, job).path
    if is_drawn(folder):
        return ""
    # A worker of another command may be drawing it; the queue exists while commands work.
    queue = Queue(run.folder)
    while inside(run.folder, Path("queue", "locks", job)).parent.is_dir():
        try:
            claim = queue.claim(job)
        except OSError as error:
            return f"its lock cannot be taken: {error}"
        if claim is not None:
            with claim:
                return "" if is_drawn(folder) else _draw_stored(run, folder)
        time.sleep(PAUSE)
    return "" if is_drawn(folder) else _draw_stored(run, folder)


def draw_missing_in_time(run: Run, job: str, seconds: float | None) -> str:
    """The same at the end of a run, whose jobs have so many seconds; `penchant report` has more.

    What went wrong is a warning of the result.
    """
    job_folder = JobFolder.of(run.folder, job)
    folder = job_folder.path
    if is_drawn(folder) or (seconds is not None and ran_out_of_time(folder)):
        return ""
    with contextlib.suppress(TimeLimitError), time_limit(seconds, folder):
        problem = draw_missing(run, job)
        if problem:
            # Where its arrays are damaged the next run computes it again.
            with contextlib.suppress(Error):
                job_folder.add_warnings(job_folder.read(), [problem])
        return problem
    return ""


def _draw_stored(run: Run, folder: Path) -> str:
    """Draw the figures of a stored result; returns what went wrong."""
    try:
        # Without arrays first: most jobs need nothing drawn.
        result = JobFolder(folder).read(arrays=False)
        if result.status != "done":
            return ""
    except Error:
        return ""  # a job without a result, or with a damaged one, is not done
    try:
        target = drawing_of(result, run.plugins)
        result = JobFolder(folder).read()
        refuse_untabled(result, run.plugins)
        if not target and not result.tables:
            return ""
        problem = draw(folder, target, result)
    except Error as error:
        problem = str(error)
    return "" if problem in result.warnings else problem
