"""A line for each job with the minutes left; bars are those of every run."""

from __future__ import annotations

from typing import Any

from penchant.components.hookspecs import hookimpl
from penchant.terminal import complain

from penchant_card.budgets import Clock, OutOfMinutesError


class MinutesLeft:
    """Prints how each job ended, and the minutes left; stops the run when there are none.

    Args:
        clock: The card's.
        lines: Print anything.
    """

    def __init__(self, clock: Clock, *, lines: bool) -> None:
        self._clock = clock
        self._lines = lines
        self._done = 0

    @hookimpl
    def penchant_progress(self, job: str, what: str, done: int, total: int) -> None:
        """Stop in the middle of a job where others are done."""
        if self._done and not self._clock.left:
            raise OutOfMinutesError

    @hookimpl
    def penchant_job_finished(self, run: Any, job: Any, result: Any) -> None:
        """Print a line after a job."""
        self._done += 1
        if self._lines:
            network = f" of {job.architecture.label}" if job.architecture else ""
            how = f"failed: {result.error}" if result.error else result.status
            took = f"{result.cost.get('seconds', 0.0):.1f} s"
            name = f"{job.probe.label}{network}, seed {job.seed}"
            complain(f"  {name}: {how}, {took}; {self._clock.text()}")
        if not self._clock.left and any(each["status"] != "done" for each in run.selected):
            raise OutOfMinutesError
