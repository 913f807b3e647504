"""A run for machines: every event as one line of JSON on stdout; into a file, it is a log."""

from __future__ import annotations

import datetime
import json
import math
import sys
from typing import Any

import attrs
from penchant.components.hookspecs import hookimpl

from penchant_tools.streams import write


class JsonLines:
    """Listens to events; each line is an object with the keys `event` and `time`."""

    @hookimpl
    def penchant_run_started(self, run: Any) -> None:
        """The run and its jobs."""
        jobs = [{"id": job["id"], "status": job["status"]} for job in run.jobs]
        folder = str(run.folder)
        _event("run-started", title=run.title, folder=folder, jobs=jobs)

    @hookimpl
    def penchant_job_started(self, run: Any, job: str) -> None:
        """A job began."""
        _event("job-started", job=job)

    @hookimpl
    def penchant_progress(self, job: str, what: str, done: int, total: int) -> None:
        """A job got further."""
        _event("progress", job=job, what=what, done=done, total=total)

    @hookimpl
    def penchant_job_finished(self, run: Any, job: Any, result: Any) -> None:
        """A job ended, with what it found."""
        quantities = {}
        for name, quantity in result.quantities.items():
            quantities[name] = attrs.asdict(quantity)
        _event(
            "job-finished",
            job=job.id,
            status=result.status,
            error=result.error,
            seconds=result.cost.get("seconds"),
            warnings=list(result.warnings),
            quantities=quantities,
        )

    @hookimpl
    def penchant_run_finished(self, run: Any) -> None:
        """The run ended, whatever became of its jobs."""
        folder = str(run.folder)
        report = str(run.folder / "report.html")
        _event("run-finished", folder=folder, done=run.done, report=report)


def _event(event: str, **facts: Any) -> None:
    now = datetime.datetime.now(datetime.UTC)
    stamp = now.isoformat(timespec="milliseconds")
    record = {"event": event, "time": stamp, **facts}
    # What is missing is null: JSON has no other word for it.
    text = json.dumps(_plain(record), allow_nan=False)
    write(sys.stdout, text)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
