"""`index.html` of a folder of runs: one row per run, newest first, with links to the reports."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any
from urllib.parse import quote

from penchant.errors import Error
from penchant.results.inside import inside
from penchant.results.runs import Run, read
from penchant_numerics.statistics import counted

from penchant_report.pages import write_page
from penchant_report.report import day_of

AXES = ("probe", "architecture", "dataset")


def runs_in(folder: Path) -> list[Path]:
    """The run folders in a folder, the newest first."""
    records = [path for path in folder.glob("*/run.json") if path.is_file()]
    return [path.parent for path in sorted(records, key=lambda path: -path.stat().st_mtime)]


def write_index(folder: Path) -> Path:
    """Write `index.html` of a folder of runs.

    Args:
        folder: The folder.

    Returns:
        The page's path.
    """
    folders = runs_in(folder)
    if not folders:
        raise Error(f"{folder} is neither a run folder nor a folder of runs")
    values = {
        "title": "Runs",
        "lead": f"{counted(len(folders), 'run')} in {folder.absolute().name}",
        "rows": [_row(each) for each in folders],
    }
    return write_page(folder / "index.html", "runs.html.jinja", values)


def _row(folder: Path) -> dict[str, Any]:
    """What the page shows of a run; one that cannot be read does not hide the others."""
    row: dict[str, Any] = {"folder": folder.name, "title": "", "report": "", "problem": ""}
    row |= dict.fromkeys(AXES, "")
    written = folder / "run.json"
    row |= {"day": day_of(written), "sort": written.stat().st_mtime}
    try:
        run = read(folder)
        if inside(folder, "report.html").is_file():
            row["report"] = f"{quote(folder.name)}/report.html"
    except Error as error:
        return {**row, "problem": str(error), "status": "cannot be read"}
    row |= {axis: _labels(run, axis) for axis in AXES}
    return {**row, "title": run.title, "status": _status(run)}


def _labels(run: Run, axis: str) -> str:
    """The labels of an axis in a run, the first few by name."""
    every = list(dict.fromkeys(str(job["labels"].get(axis, "")) for job in run.jobs))
    named = [label for label in every if label]
    more = f" and {len(named) - 4} more" if len(named) > 4 else ""
    return ", ".join(named[:4]) + more


def _status(run: Run) -> str:
    counts = collections.Counter(job["status"] for job in run.jobs)
    listed = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    return f"{counted(len(run.jobs), 'job')}: {listed}"
