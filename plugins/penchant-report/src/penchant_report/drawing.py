"""Figures of a job: drawn from its stored result into its folder, each with a caption.

A figure is `figures/<name>.svg`, or `.png` where that would be large. `figures/figures.json` holds
captions, titles and file names in the order in which figures are to be seen. It is written last: a
job that lacks it, because it was stopped while drawing, is drawn again by `run` and `report`.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import attrs
from penchant.errors import Error
from penchant.execution.failures import authors_line
from penchant.execution.tasks import PAUSE, Queue
from penchant.results.files import SCHEMA, atomic, check_name, write_json
from penchant.results.job_folder import JobFolder
from penchant.results.result import Result, to_json

from penchant_report.figures import figures_of, picture, title_of
from penchant_report.tables import FOLDER as TABLES
from penchant_report.tables import write_tables

__all__ = ["draw", "draw_missing", "figures_of", "is_drawn", "keep_warning"]


def draw(folder: Path, target: Any, result: Result) -> str:
    """Draw the figures of a job into its folder.

    Args:
        folder: The job's folder.
        target: The function that draws, or its name.
        result: What is drawn.

    Returns:
        What went wrong; empty if nothing did.
    """
    figures_folder = folder / "figures"
    # What a kill left half drawn.
    for old in (figures_folder, folder / TABLES):
        shutil.rmtree(old, ignore_errors=True)
    try:
        record: dict[str, Any] = {"captions": {}, "titles": {}, "files": {}}
        for name, figure in figures_of(target, result).items():
            check_name(name, "figure")
            ending, content = picture(figure)
            file_name = f"{name}.{ending}"
            figures_folder.mkdir(exist_ok=True)
            with atomic(figures_folder / file_name, durable=False) as file:
                file.write(content)
            # The caption.
            record["captions"][name] = figure.get_label() or ""
            record["titles"][name] = title_of(figure)
            record["files"][name] = file_name
        figures_folder.mkdir(exist_ok=True)
        write_tables(folder, result.arrays)
        # Written even where there are no figures: it says that drawing ended.
        write_json(figures_folder / "figures.json", {"schema": SCHEMA, **record})
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a figure raises, the numbers are safe
        shutil.rmtree(figures_folder, ignore_errors=True)
        line = authors_line(error, target)
        where = f" (at {line})" if line else ""
        return f"figures could not be drawn: {type(error).__name__}: {error}{where}"
    return ""


def is_drawn(folder: Path) -> bool:
    """Are the figures of a job all there?"""
    figures_folder = folder / "figures"
    record = figures_folder / "figures.json"
    # Runs made before captions existed have PNG pictures only.
    return record.is_file() or any(figures_folder.glob("*.png"))


def draw_missing(run: Path, job: str) -> str:
    """Draw the figures of a stored job that was stopped before it had them.

    Args:
        run: The run folder.
        job: The job's id.

    Returns:
        What went wrong, where the result does not say so already; empty if nothing did.
    """
    folder = run / "jobs" / job
    if is_drawn(folder):
        return ""
    # A worker of another command may be drawing it; the queue exists while commands work.
    queue = Queue(run)
    while queue.path.is_dir():
        claim = queue.claim(job)
        if claim is not None:
            with claim:
                return "" if is_drawn(folder) else _draw_stored(folder)
        time.sleep(PAUSE)
    return "" if is_drawn(folder) else _draw_stored(folder)


def _draw_stored(folder: Path) -> str:
    """Draw the figures of a stored result; returns what went wrong."""
    try:
        # Without arrays first: most jobs need nothing drawn.
        result = JobFolder(folder).read(arrays=False)
        if result.status != "done" or not result.record.get("figures"):
            return ""
        result = JobFolder(folder).read()
    except Error:
        return ""  # a job without a result, or with a damaged one, is not done
    problem = draw(folder, result.record["figures"], result)
    if not problem or problem in result.warnings:
        return ""
    keep_warning(folder, result, problem)
    return problem


def keep_warning(folder: Path, result: Result, text: str) -> Result:
    """Add a warning to a stored result; its arrays stay as they were written.

    Args:
        folder: The job's folder.
        result: The result as it is stored.
        text: The warning.

    Returns:
        The result with the warning.
    """
    warnings = (*result.warnings, text)
    warned = attrs.evolve(result, warnings=warnings)
    record = to_json(warned)
    write_json(folder / "result.json", record)
    return warned
