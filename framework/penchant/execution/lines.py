"""A plain line per job on stderr, and what it found on stdout: what the kernel shows by itself."""

from __future__ import annotations

import sys
from typing import Any

from penchant.components.hookspecs import hookimpl
from penchant.results.lines import quantity_lines
from penchant.terminal import write


class PlainLines:
    """Listens to events, as a plugin does."""

    @hookimpl
    def penchant_run_started(self, run: Any) -> None:
        """Say what is about to be done."""
        done = sum(job["status"] == "done" for job in run.jobs)
        write(sys.stderr, f"{run.title}: {len(run.jobs)} jobs, {done} already done -> {run.folder}")

    @hookimpl
    def penchant_job_finished(self, run: Any, job: Any, result: Any) -> None:
        """Say how a job ended, and what it found."""
        seconds = result.cost.get("seconds", 0)
        write(sys.stderr, f"  {result.status:6} {job.id}  {seconds:.1f} s")
        if result.error:
            write(sys.stderr, f"         {result.error}")
        for text in result.warnings:
            write(sys.stderr, f"         warning: {text}")
        if result.status == "done":
            for line in [job.id, *quantity_lines(result.quantities)]:
                write(sys.stdout, line)
