"""Bars of all running jobs, on a terminal or in a notebook; they vanish when the run ends."""

from __future__ import annotations

import io
import shutil
import sys
import time
from typing import Any

from penchant.terminal import printable

SECONDS_BETWEEN_UPDATES = 0.1
SECONDS_BETWEEN_NOTEBOOK_UPDATES = 0.5
WIDTH_IN_NOTEBOOKS = 100
LONGEST_NAME = 40
SHARDS = "shards"


def in_notebook() -> bool:
    """Is this a cell of a notebook?"""
    # Without IPython loaded this is no notebook; loading it to find out would take long.
    module = sys.modules.get("IPython")
    if module is None:
        return False
    shell = module.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


def is_watched() -> bool:
    """Is there anybody who would see a bar?"""
    stream = sys.stderr
    on_terminal = stream is not None and stream.isatty()
    return on_terminal or in_notebook()


class Bars:
    """A bar, rate and time left for every job that reports progress, and one for all."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        screen = _NotebookScreen() if in_notebook() else _Terminal()
        self._screen: Any = screen
        # Names are cut, never numbers.
        name = Column(no_wrap=True, max_width=LONGEST_NAME, overflow="ellipsis")
        self._progress = Progress(
            TextColumn("{task.description}", markup=False, table_column=name),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[facts]}", markup=False),
            console=screen.console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
        )
        self._tasks: dict[str, Any] = {}
        self._began: dict[tuple[str, str], tuple[float, int]] = {}
        self._sharded: set[str] = set()
        self._drawn = 0.0
        self._all: Any = None
        self._started = 0.0

    def start(self, total: int, done: int) -> None:
        """Begin: how many jobs there are, and how many of them are done."""
        self._started = time.monotonic()
        if total > 1:
            self._all = self._progress.add_task(
                "all", total=total, completed=done, facts=f"{done}/{total} jobs"
            )
        self._screen.start(self._progress)

    def running(self, job: str, name: str) -> None:
        """A job began."""
        if job not in self._tasks:
            shown = printable(name)
            # Its length is not known yet.
            task = self._progress.add_task(shown, total=None, facts="")
            self._tasks[job] = task
        self._draw()

    def update(self, job: str, what: str, done: int, total: int) -> None:
        """A job got further.

        Args:
            job: Its id.
            what: What is counted.
            done: How many are done.
            total: How many there are.
        """
        # What shards count inside is of no interest once it is known how many there are.
        if what != SHARDS and job in self._sharded:
            return
        if what == SHARDS:
            self._sharded.discard(job)
            if done < total:
                self._sharded.add(job)
        now = time.monotonic()
        # From the first report on: what was read from disk before it took no time.
        began, first = self._began.setdefault((job, what), (now, done))
        left = time_left(now - began, done - first, total - done)
        facts = printable(f"{done}/{total} {what}{left}")
        self._progress.update(self._tasks[job], total=total, completed=done, facts=facts)
        self._draw()

    def ended(self, job: str, done: int, total: int) -> None:
        """A job ended: its bar goes.

        Args:
            job: Its id.
            done: How many jobs have ended.
            total: How many there are.
        """
        task = self._tasks.pop(job, None)
        if task is not None:
            self._progress.remove_task(task)
        # A single job has no bar of all jobs.
        if self._all is None:
            return
        seconds = time.monotonic() - self._started
        left = time_left(seconds, done, total - done, rate=False)
        facts = f"{done}/{total} jobs{left}"
        self._progress.update(self._all, completed=done, facts=facts)

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        shown = printable(text)
        self._screen.console.print(shown, markup=False, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        """Leave a clean screen."""
        self._screen.leave(self._progress)

    def _draw(self) -> None:
        now = time.monotonic()
        if now - self._drawn >= self._screen.pause:
            self._drawn = now
            self._screen.draw(self._progress)


class _Terminal:
    """Where rich draws by itself."""

    pause = SECONDS_BETWEEN_UPDATES

    def __init__(self) -> None:
        from rich.console import Console

        width = shutil.get_terminal_size().columns
        self.console = Console(stderr=True, width=width)

    def start(self, progress: Any) -> None:
        progress.start()

    def draw(self, progress: Any) -> None:
        progress.refresh()

    def leave(self, progress: Any) -> None:
        progress.stop()


class _NotebookScreen:
    """One output of a cell, replaced again and again; rich alone would need ipywidgets for it."""

    pause = SECONDS_BETWEEN_NOTEBOOK_UPDATES

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(
            file=io.StringIO(), record=True, force_jupyter=False, width=WIDTH_IN_NOTEBOOKS
        )
        self._handle: Any = None

    def start(self, progress: Any) -> None:
        from IPython.display import HTML, display

        self._handle = display(HTML(""), display_id=True)

    def draw(self, progress: Any) -> None:
        from IPython.display import HTML

        self.console.print(progress.get_renderable())
        code = self.console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")
        self._handle.update(HTML(code))

    def leave(self, progress: Any) -> None:
        from IPython.display import HTML

        self._handle.update(HTML(""))


def time_left(seconds: float, done: int, left: int, *, rate: bool = True) -> str:
    """Rate and time left, as text that follows a count; empty before anything is known.

    Args:
        seconds: How long it took so far.
        done: How many were done in that time.
        left: How many are left.
        rate: Say how many are done in a second.

    Returns:
        Such as ", 3.2/s, 0:12 left".

    >>> time_left(10.0, 5, 30)
    ', 0.5/s, 1:00 left'
    """
    if done < 1 or seconds <= 0:
        return ""
    # As a clock shows it; hours only where there are any.
    remaining = round(seconds / done * left)
    minutes, rest = divmod(remaining, 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{minutes}:{rest:02}"
    if hours:
        clock = f"{hours}:{minutes:02}:{rest:02}"
    speed = ""
    if rate:
        per_second = done / seconds
        speed = f", {per_second:.3g}/s"
    return f"{speed}, {clock} left"
