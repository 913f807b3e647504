"""Progress: workers append to files, which every command on the folder follows."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol, TypedDict

from penchant.execution.queue.locks import PAUSE
from penchant.execution.queue.tasks import Queue

SECONDS_BETWEEN_REPORTS = 0.1  # of a job: more often is not seen, and costs


class Message(TypedDict, total=False):
    """A report of a worker: a job began or ended, or how far it is."""

    job: str
    started: bool
    ended: bool
    what: str
    done: int
    total: int


class Reports(Protocol):
    """Where a worker reports to: a file of the run folder, or the command."""

    def report(self, message: Message) -> None:
        """Send a message."""


# Where the worker of this thread reports to, and the command that watches it.
_reporter: ContextVar[Reports | None] = ContextVar("reporter", default=None)
_look: ContextVar[Callable[[], None] | None] = ContextVar("look", default=None)


class Reporter:
    """Appends the reports of a worker to its file, which exists once the worker has started."""

    def __init__(self, queue: Queue, worker: str) -> None:
        self._path = queue.path / "progress" / worker
        with contextlib.suppress(OSError):
            self._path.touch()

    def report(self, message: Message) -> None:
        """Append a message; a disk that refuses it costs progress only."""
        # Closed after each line: only then do other machines see it.
        with contextlib.suppress(OSError), open(self._path, "a") as file:
            file.write(json.dumps(message) + "\n")


@contextlib.contextmanager
def reporting(reporter: Reports) -> Iterator[None]:
    """Report to it while a worker runs in this thread."""
    token = _reporter.set(reporter)
    try:
        yield
    finally:
        _reporter.reset(token)


@contextlib.contextmanager
def watching(look: Callable[[], None]) -> Iterator[None]:
    """Call `look` at every report and pause, where a command's own thread is the worker."""
    token = _look.set(look)
    try:
        yield
    finally:
        _look.reset(token)


def report(message: Message) -> None:
    """Report how far a job is, from wherever its code runs."""
    reporter = _reporter.get()
    if reporter is not None:
        reporter.report(message)
    _let_look()


class JobProgress:
    """Reports how far a job is, a few times a second."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._reported = 0.0

    def tell(self, what: str, done: int, total: int) -> None:
        """Report that `done` of a total are done."""
        now = time.monotonic()
        # The first report of a count is always sent, and the last, so that it ends at its total.
        if 0 < done < total and now - self._reported < SECONDS_BETWEEN_REPORTS:
            return
        self._reported = now
        report({"job": self._job, "what": what, "done": done, "total": total})


def pause() -> None:
    """Wait a little for what other workers do."""
    _let_look()
    time.sleep(PAUSE)


def _let_look() -> None:
    look = _look.get()
    if look is not None:
        look()


def is_expendable() -> bool:
    """Is this process one that an executor started, and can start again?"""
    return _reporter.get() is not None and _look.get() is None


class Follower:
    """Reads the reports of all workers of a folder."""

    def __init__(self, queue: Queue) -> None:
        self._folder = queue.path / "progress"
        self._read: dict[str, int] = {}

    def messages(self) -> Iterator[Message]:
        """Messages since the last call."""
        with contextlib.suppress(FileNotFoundError):
            for path in self._folder.iterdir():
                seen = self._read.get(path.name, 0)
                if path.stat().st_size > seen:
                    yield from self._new(path, seen)

    def _new(self, path: Path, seen: int) -> Iterator[Message]:
        with path.open("rb") as file:
            file.seek(seen)
            data = file.read()
        # The last line may still be written.
        whole, end, _ = data.rpartition(b"\n")
        self._read[path.name] = seen + len(whole) + len(end)
        for line in whole.splitlines():
            # A full disk may have cut a line.
            with contextlib.suppress(ValueError):
                yield json.loads(line)
