"""The minutes left, after each job."""

from __future__ import annotations

from typing import Any

from penchant.components.hookspecs import hookimpl
from penchant.terminal import complain

from penchant_card.budgets import Clock


class MinutesLeft:
    """Prints the minutes left.

    Args:
        clock: The card's.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @hookimpl
    def penchant_job_finished(self, run: Any, job: Any, result: Any) -> None:
        """Print a line after a job."""
        complain(f"         {self._clock.text()}")
