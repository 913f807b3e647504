"""Executors that start workers somewhere, and say which of them have ended.

`penchant.Executor` describes what an executor is. What is the same for all that start workers is
here: dead workers are started again, and how they died is noted for the tasks that they had.
"""

import functools
from collections.abc import Callable
from typing import Protocol

from penchant.components.component import Executor
from penchant.components.targets import resolve
from penchant.errors import Error
from penchant.execution.queue.tasks import Queue
from penchant.execution.workers.worker import Assignment, UnseenFolderError, work

DEATHS = 3  # of workers in a row that never began to work: something is wrong


class Workers(Protocol):
    """What the target of an executor returns; `penchant.Executor` says what its methods do."""

    size: int

    def start(self, number: int) -> None:
        """Call `work(number)` somewhere, and return at once; or here, and return when it has."""

    def ended(self) -> dict[int, str | Exception]:
        """Workers that ended since the last call."""

    def stop(self) -> None:
        """End all workers."""


class Team:
    """The workers of a command; `grow` replaces those that died."""

    def __init__(self, executor: Executor, assignment: Assignment, workers: int | None) -> None:
        start = resolve(type(executor).target, f"executor {executor.name!r}")
        call = functools.partial(work, assignment)
        self._workers: Workers = start(executor, call, workers, assignment.threads)
        self._assignment = assignment
        self._queue = Queue(assignment.folder)
        self.size = self._workers.size
        self._free = list(range(self.size))
        self._running: set[int] = set()
        self._unready = 0
        self._excused: set[int] = set()  # workers that were there when the folder was deleted

    def grow(self, count: int) -> None:
        """Start workers until there are this many, or as many as the executor has room for."""
        while self._free and len(self._running) < count:
            number = self._free.pop(0)
            self._workers.start(number)
            self._running.add(number)

    def tend(self) -> None:
        """Note which workers have died, and raise what one of them has raised."""
        for number, how in self._workers.ended().items():
            # The folder was deleted: workers return or do not see it, which is not their fault.
            if not self._queue.path.is_dir():
                self._excused |= self._running
                self._queue.make()
            self._running.remove(number)
            # Its successor has another number and the same device.
            self._free.append(number + self.size)
            if isinstance(how, (str, UnseenFolderError)):
                self._note(number, how)
            elif isinstance(how, (Error, OSError)):
                raise how
            else:
                raise Error(f"a worker failed: {type(how).__name__}: {how}") from how

    def _note(self, number: int, how: str | UnseenFolderError) -> None:
        """Note how a worker ended; several that could not even begin are an error."""
        name = self._assignment.worker(number)
        if how:
            self._queue.note_death(name, str(how))
        elif not set(self._assignment.waiting).difference(self._queue.names("ended")):
            return  # it returned because every job has ended
        if number in self._excused:
            return
        ready = (self._queue.path / "progress" / name).exists()
        self._unready = 0 if ready else self._unready + 1
        if self._unready < DEATHS:
            return
        if isinstance(how, UnseenFolderError):
            raise Error(f"{how}: workers must share the run folder")
        last = how or "it returned, but jobs are left"
        raise Error(f"{DEATHS} workers in a row died before they could work (last: {last})")

    def stop(self) -> None:
        """End all workers."""
        self._workers.stop()


class Serial:
    """One worker, which is this process: `start` returns when it has ended."""

    size = 1

    def __init__(
        self, options: Executor, work: Callable[[int], None], workers: int | None, threads: int
    ) -> None:
        self._work = work
        self._ended: dict[int, str | Exception] = {}

    def start(self, number: int) -> None:
        """Work here."""
        try:
            self._work(number)
            self._ended[number] = ""
        except Exception as error:
            self._ended[number] = error

    def ended(self) -> dict[int, str | Exception]:
        """Workers that ended since the last call."""
        ended, self._ended = self._ended, {}
        return ended

    def stop(self) -> None:
        """Nothing is left."""
