"""What commands print: lines without control characters, and how jobs ended."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from penchant.components.hookspecs import hookimpl
from penchant.extras import extra, is_installed
from penchant.plugins.discovery import Plugins
from penchant_numerics.statistics import counted

if TYPE_CHECKING:
    from penchant.experiments.jobs import Job
    from penchant.results.result import Result
    from penchant.results.runs import Run


def say(text: str) -> None:
    """A line on stdout, in bytes: a terminal of another encoding shows what it can."""
    click.echo(printable(text).encode(errors="backslashreplace"))


def complain(text: str) -> None:
    """A line on stderr, if there is one."""
    if sys.stderr is not None:
        click.echo(printable(text), err=True)


def printable(text: str) -> str:
    r"""A text whose control characters cannot move a terminal's cursor or change its colours.

    >>> printable("red: " + chr(27) + "[31m")
    'red: \\x1b[31m'
    """
    # Lines and columns are meant; an escape sequence never is.
    shown = [each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text]
    return "".join(shown)


def with_display(
    plugins: Plugins, *, lines: bool = True, quantities: bool | None = None
) -> Plugins:
    """The plugins, and a listener that shows bars and lines; without `penchant-tools` plain lines.

    `quantities` prints those of every job, or of none; by default those of a single job.
    """
    if is_installed("penchant_tools") and "tools" not in plugins.without:
        display = extra("display")
        return plugins.with_listener("display", display(lines=lines, quantities=quantities))
    if not lines:
        return plugins
    return plugins.with_listener("display", PlainLines(quantities=quantities is not False))


class PlainLines:
    """A line per job on stderr, and its quantities on stdout: what the kernel shows by itself."""

    def __init__(self, *, quantities: bool = True) -> None:
        self._quantities = quantities

    @hookimpl
    def penchant_run_started(self, run: Run) -> None:
        """Say what is about to be done."""
        done = sum(job["status"] == "done" for job in run.jobs)
        jobs = counted(len(run.jobs), "job")
        complain(f"{run.title}: {jobs}, {done} already done -> {run.folder}")

    @hookimpl
    def penchant_job_finished(self, job: Job, result: Result) -> None:
        """Say how a job ended, and what it found."""
        seconds = result.cost.get("seconds", 0)
        complain(f"  {result.status:6} {job.id}  {seconds:.1f} s")
        if result.error:
            complain(f"         {result.error}")
        for text in result.warnings:
            complain(f"         warning: {text}")
        if result.status == "done" and self._quantities:
            say(job.id)
            for name, quantity in result.quantities.items():
                say(f"  {name}: {quantity}")
