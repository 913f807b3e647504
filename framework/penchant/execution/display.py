"""Shows a run on the terminal: a line a job, and in between how far the present ones got."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any

from penchant.components.hookspecs import hookimpl
from penchant.errors import printable

SECONDS_BETWEEN_LINES = 0.1
_CLEAR = "\r\x1b[2K"


class Display:
    """Listens to events and writes to stderr; a bar only where that is a terminal."""

    def __init__(self) -> None:
        # A program started with its stderr closed has none.
        self._out = sys.stderr
        self._bar = bool(self._out is not None and self._out.isatty())
        self._total = self._ended = 0
        self._shown = 0.0
        self._began: dict[tuple[str, str], tuple[float, int]] = {}

    @hookimpl
    def penchant_run_started(self, run: Any) -> None:
        """Say what is about to be done."""
        statuses = [job["status"] for job in run.jobs]
        self._total = len(statuses)
        self._ended = statuses.count("done")
        counts = f"{self._total} jobs, {self._ended} already done"
        self._print(f"{run.title}: {counts} -> {run.folder}")

    @hookimpl
    def penchant_progress(self, job: str, what: str, done: int, total: int) -> None:
        """Show how far a job is, a few times a second."""
        now = time.monotonic()
        # From the first report on: what was read from disk before it took no time.
        began, first = self._began.setdefault((job, what), (now, done))
        if not self._bar or now - self._shown < SECONDS_BETWEEN_LINES:
            return
        self._shown = now
        seconds = now - began
        left = _time_left(seconds, done - first, total - done)
        jobs = ""
        if self._total > 1:
            jobs = f"[{self._ended + 1}/{self._total}] "
        line = f"  {jobs}{job}: {done}/{total} {what}{left}"
        # A line that is longer than the terminal would flood it.
        width = shutil.get_terminal_size().columns - 1
        shown = printable(line)[:width]
        self._write(_CLEAR + shown)

    @hookimpl
    def penchant_job_finished(self, run: Any, job: Any, result: Any) -> None:
        """Say how a job ended."""
        self._ended += 1
        self._clear()
        seconds = result.cost.get("seconds", 0)
        count = f"[{self._ended}/{self._total}]"
        self._print(f"  {result.status:6} {count} {job.id}  {seconds:.1f} s")
        if result.error:
            self._print(f"         {result.error}")
        for warning in result.warnings:
            self._print(f"         warning: {warning}")

    @hookimpl
    def penchant_run_finished(self, run: Any) -> None:
        """Leave a clean line."""
        self._clear()

    def _print(self, text: str) -> None:
        self._write(printable(text) + "\n")

    def _clear(self) -> None:
        if self._bar:
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        if self._out is None:
            return
        # What the terminal cannot show is escaped: a label must not end a run.
        encoding = getattr(self._out, "encoding", None) or "utf-8"
        try:
            data = text.encode(encoding, "backslashreplace")
            self._out.write(data.decode(encoding))
            self._out.flush()
        except (OSError, ValueError):
            self._out = None  # type: ignore[assignment]  # closed: nobody reads it any more


def _time_left(seconds: float, done: int, left: int) -> str:
    if done < 1 or seconds <= 0:
        return ""
    rate = done / seconds
    remaining = seconds / done * left
    minutes, rest = divmod(remaining, 60)
    return f", {rate:.3g}/s, {minutes:.0f}:{rest:02.0f} left"
