"""Progress: workers append to files, which every command on the folder follows."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from typing import TypedDict

from penchant.execution.tasks import Queue


class Message(TypedDict, total=False):
    """A report of a worker: a job began or ended, or how far it is."""

    job: str
    started: bool
    ended: bool
    what: str
    done: int
    total: int


class _Here(threading.local):
    """State of this thread: where its worker reports to, and the command that watches it."""

    reporter: Reporter | None = None
    look: Callable[[], None] | None = None


_here = _Here()


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
        if _here.look is not None:
            _here.look()


@contextlib.contextmanager
def reporting(reporter: Reporter) -> Iterator[None]:
    """Report to it while a worker runs in this thread."""
    before = _here.reporter
    _here.reporter = reporter
    try:
        yield
    finally:
        _here.reporter = before


@contextlib.contextmanager
def watching(look: Callable[[], None]) -> Iterator[None]:
    """Call `look` at every report, where a command's own thread is the worker."""
    _here.look = look
    try:
        yield
    finally:
        _here.look = None


def report(message: Message) -> None:
    """Report how far a job is, from wherever its code runs."""
    if _here.reporter is not None:
        _here.reporter.report(message)


def is_expendable() -> bool:
    """Is this process one that an executor started, and can start again?"""
    return _here.reporter is not None and _here.look is None


class Follower:
    """Reads the reports of all workers of a folder."""

    def __init__(self, queue: Queue) -> None:
        self._folder = queue.path / "progress"
        self._read: dict[str, int] = {}

    def messages(self) -> Iterator[Message]:
        """Messages since the last call."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                seen = self._read.get(entry.name, 0)
                if entry.stat().st_size > seen:
                    yield from self._new(entry.name, seen)

    def _new(self, name: str, seen: int) -> Iterator[Message]:
        with open(self._folder / name, "rb") as file:
            file.seek(seen)
            data = file.read()
        # The last line may still be written.
        whole, end, _ = data.rpartition(b"\n")
        self._read[name] = seen + len(whole) + len(end)
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):
                yield json.loads(line)
