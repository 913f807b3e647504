"""Shows a run: what runs, and how each job ended.

A listener like any plugin's, through the event hooks. Bars are drawn on a terminal or in a notebook
only; lines go to stderr. Quantities go to stdout for a single job; in a grid only with an option.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable
from typing import Any

from penchant.components.hookspecs import hookimpl
from penchant.results.records import accuracy_text
from penchant_numerics.statistics import counted

from penchant_tools.bars import Bars, is_watched
from penchant_tools.quantity_lines import quantity_lines
from penchant_tools.streams import write

MOST_NAMES = 6  # of quantities and arrays that a job did not measure


class Display:
    """Listens to events.

    Args:
        lines: Print anything besides bars.
        quantities: Print those of every job, or of none; None: those of a single job.
    """

    def __init__(self, *, lines: bool = True, quantities: bool | None = None) -> None:
        self._lines = lines
        self._quantities = quantities
        self._bars = Bars() if is_watched() else None
        self._total = self._ended = 0
        self._names: dict[str, str] = {}
        self._warned: set[str] = set()

    @hookimpl
    def penchant_run_started(self, run: Any) -> None:
        """Say what is about to be done, and what is known already."""
        jobs = run.selected
        if self._quantities is None:
            self._quantities = len(jobs) == 1
        done = []
        self._names = {}
        for job in jobs:
            name = job["id"]
            self._names[name] = _name(job["labels"])
            if job["status"] == "done":
                done.append(name)
        self._total = len(jobs)
        self._ended = len(done)
        counts = f"{counted(self._total, 'job')}, {self._ended} already done"
        self._tell(f"{run.title}: {counts} -> {run.folder}")
        if run.others:
            listed = ", ".join(run.others)
            others = counted(len(run.others), "other command")
            self._tell(f"{others} in this folder: {listed}")

        # What is known already is shown like what will be found.
        if self._lines and self._quantities:
            for name in done:
                result = run.result(name, arrays=False)
                self._found(result, name)
        if self._bars is not None:
            self._bars.start(self._total, self._ended)

    @hookimpl
    def penchant_job_started(self, run: Any, job: str) -> None:
        """Show that a job runs."""
        if self._bars is not None:
            name = self._names[job]
            self._bars.running(job, name)

    @hookimpl
    def penchant_progress(self, job: str, what: str, done: int, total: int) -> None:
        """Show how far a job is."""
        if self._bars is not None:
            name = self._names.get(job, job)
            self._bars.running(job, name)
            self._bars.update(job, what, done, total)

    @hookimpl
    def penchant_job_finished(self, run: Any, job: Any, result: Any) -> None:
        """Say how a job ended, and what it found."""
        self._ended += 1
        if self._bars is not None:
            self._bars.ended(job.id, self._ended, self._total)
        # How it ended, then what was found.
        count = f"[{self._ended}/{self._total}]"
        seconds = result.cost.get("seconds", 0)
        facts = f"{job.id}  {seconds:.1f} s"
        self._tell(f"  {_clock()}{result.status:6} {count} {facts}")
        if result.error:
            self._tell(f"         {result.error}")
        accuracy = result.record.get("accuracy")
        if accuracy:
            self._tell(f"         network: {accuracy_text(accuracy)}")
        self._warn(result.warnings)
        if result.status == "done" and self._lines and self._quantities:
            self._found(result, job.id, declared=job.record["about"])

    @hookimpl
    def penchant_run_finished(self, run: Any) -> None:
        """Leave a clean screen."""
        if self._bars is not None:
            self._bars.stop()

    def _warn(self, warnings: Any) -> None:
        """Every warning once in a run: a grid of a hundred jobs has the same hundred times."""
        for warning in warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                self._tell(f"         warning: {warning}")

    def _tell(self, text: str) -> None:
        if self._lines:
            self._print(sys.stderr, text)

    def _found(self, result: Any, job: str, declared: Iterable[str] = ()) -> None:
        width = shutil.get_terminal_size().columns
        lines = quantity_lines(result.quantities, width=width)
        for line in [job, *lines]:
            self._print(sys.stdout, line)
        # Some depend on options; of the others only their author can know that they are missing.
        lacking = [name for name in result.meanings if name not in result.quantities]
        lacking += [f"array {name}" for name in declared if name not in result.arrays]
        if lacking:
            rest = len(lacking) - MOST_NAMES
            listed = ", ".join(lacking[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
            self._tell(f"         not measured here: {listed}")

    def _print(self, stream: Any, text: str) -> None:
        # On the screen that has the bars, only the bars can make room for a line.
        if self._bars is not None and stream is not None and stream.isatty():
            self._bars.say(text)
        else:
            write(stream, text)


def _clock() -> str:
    """The time of day for a log; nothing on a terminal."""
    return "" if sys.stderr.isatty() else f"{time.strftime('%H:%M:%S')} "


def _name(labels: dict[str, Any]) -> str:
    """A job as people speak of it: its labels, without the hash that its folder's name ends in."""
    axes = ("probe", "architecture", "dataset")
    given = [str(labels[axis]) for axis in axes if axis in labels]
    name = " ".join(given)
    seed = labels["seed"]
    return f"{name} s{seed}"
