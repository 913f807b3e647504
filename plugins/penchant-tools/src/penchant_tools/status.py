"""What runs there are, and what each of them lacks."""

from __future__ import annotations

import collections
import datetime
from collections.abc import Iterator
from pathlib import Path

import penchant
from penchant.results.runs import Run
from penchant_numerics.statistics import counted


def run_lines(folder: Path) -> Iterator[str]:
    """A line for every run folder below a folder, the newest first."""
    found = [path for path in folder.glob("*/run.json") if path.is_file()]
    records = sorted(found, key=lambda path: -path.stat().st_mtime)
    if not records:
        raise penchant.Error(f"there is no run folder in {folder}")
    for record in records:
        try:
            run = penchant.read(record.parent)
            yield f"{record.parent}  {_moment(record)}  {_counts(run)}  {run.title}"
        except penchant.Error as error:
            # One that cannot be read does not hide the others.
            yield f"{record.parent}  cannot be read: {error}"


def _moment(path: Path) -> str:
    """When a file was written."""
    try:
        moment = datetime.datetime.fromtimestamp(path.stat().st_mtime)
    except (ValueError, OverflowError, OSError):  # a file may come with any date
        return "at an unknown time"
    return f"{moment:%Y-%m-%d %H:%M}"


def job_lines(run: Run) -> Iterator[str]:
    """How a run stands: counts, then every job that is not done, with the reason."""
    yield f"{run.title}: {_counts(run)}"
    for job in run.jobs:
        if job["status"] == "failed":
            yield f"  failed   {job['id']}: {run.result(job['id'], arrays=False).error}"
        elif job["status"] != "done":
            yield f"  {job['status']:8} {job['id']}"


def _counts(run: Run) -> str:
    """How many jobs ended how.

    >>> _counts(Run(Path(), {"jobs": [{"id": "a", "status": "done"}]}))
    '1 of 1 job done'
    """
    counts = collections.Counter(job["status"] for job in run.jobs)
    text = f"{counts.pop('done', 0)} of {counted(len(run.jobs), 'job')} done"
    return ", ".join([text, *(f"{count} {status}" for status, count in sorted(counts.items()))])
