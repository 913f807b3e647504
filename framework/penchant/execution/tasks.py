"""Tasks: a job, or a shard of a job that runs; the run folder is their queue.

A task is done when its result exists, taken while its lock is held, and free otherwise. The
operating system releases a lock when its holder dies, however it dies. Attempts are counted: a task
that was begun several times without a result has failed.

What workers need to know of each other is in `queue/` of the run folder, as long as commands work
there:

* `commands/`: the commands at work, each with a lock that it holds until it ends;
* `locks/`, `begun/`: locks of tasks, and the workers that began one that has no result yet;
* `ended/`: a file for every job that has ended, well or not;
* `maps/`: maps whose shards any worker may do;
* `idle/`, `progress/`, `deaths/`: workers that wait, how far they are, how they died.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
from penchant.execution.pauses import Pause

ATTEMPTS = 3  # after which a task that crashes its worker has failed
SECONDS_TO_EXPLAIN = 5.0  # that a command is given to find out how its worker died
PARTS = ("commands", "locks", "begun", "ended", "maps", "idle", "progress", "deaths")


@attrs.frozen
class Queue:
    """The tasks of a run folder."""

    folder: Path

    @property
    def path(self) -> Path:
        """Where workers leave what others need to know."""
        return self.folder / "queue"

    def make(self) -> None:
        """Make the folders."""
        for name in PARTS:
            (self.path / name).mkdir(parents=True, exist_ok=True)

    def remove(self) -> None:
        """Remove everything; only where no other command works."""
        shutil.rmtree(self.path, ignore_errors=True)

    def claim(self, task: str, worker: str, lock: Path | None = None) -> Claim | None:
        """Take a task; None where another worker has it.

        Args:
            task: Its name.
            worker: The worker that takes it.
            lock: Its lock file; by default the one of a job.

        Returns:
            The claim, which holds the lock.

        Raises:
            FileNotFoundError: The folder of the lock has been removed.
        """
        import filelock

        path = lock or self.path / "locks" / f"{task}.lock"
        # The library would make the folder again.
        path.parent.stat()
        held = filelock.FileLock(path, thread_local=False)
        try:
            held.acquire(timeout=0)
        except filelock.Timeout:
            return None
        return Claim(self.path / "begun" / task, worker, held)

    def end(self, job: str) -> None:
        """Note that a job has ended."""
        (self.path / "ended" / job).touch()

    def has_ended(self, job: str) -> bool:
        """Has this job ended since commands work here?"""
        return (self.path / "ended" / job).exists()

    def ended(self) -> list[str]:
        """All jobs that have."""
        with contextlib.suppress(FileNotFoundError):
            return [path.name for path in (self.path / "ended").iterdir()]
        return []

    def has_idle(self) -> bool:
        """Does a worker wait for something to do?"""
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path / "idle") as entries:
            return any(True for _ in entries)
        return False

    def note_death(self, worker: str, how: str) -> None:
        """Say how a worker died."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / "deaths" / worker).write_text(how)

    def how_died(self, worker: str) -> str:
        """How a worker died, as the command that started it will have found out in a moment."""
        path = self.path / "deaths" / worker
        deadline = time.monotonic() + SECONDS_TO_EXPLAIN
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                return path.read_text()
            time.sleep(0.05)
        return "no reason is known"

    def crash_of(self, what: str, claim: Claim) -> str:
        """Why a task that was begun too often has failed."""
        count = len(claim.attempts)
        how = self.how_died(claim.attempts[-1])
        found = f"{what} crashed its worker {count} times (last: {how})"
        return f"{found}. If memory ran out, use fewer workers."


class Claim:
    """A task that is taken: its lock, and the workers that began it without a result."""

    def __init__(self, begun: Path, worker: str, lock: object) -> None:
        self._begun = begun
        self._worker = worker
        self._lock = lock
        self.attempts: list[str] = []
        with contextlib.suppress(FileNotFoundError):
            self.attempts = begun.read_text().split()

    def begin(self) -> None:
        """Count an attempt."""
        self._write([*self.attempts, self._worker])
        _held.add(self)

    def forgive(self) -> None:
        """Forget earlier attempts: this one gets further."""
        if self.attempts:
            self.attempts = []
            self._write([self._worker])

    def withdraw(self) -> None:
        """Forget this attempt: it ends for another reason than the task."""
        self._write(self.attempts)

    def finish(self) -> None:
        """Forget all attempts: the task has a result."""
        _held.discard(self)
        self._begun.unlink(missing_ok=True)

    def release(self) -> None:
        """Let others have the task."""
        _held.discard(self)
        self._lock.release()  # type: ignore[attr-defined]

    def _write(self, workers: list[str]) -> None:
        self._begun.write_text("\n".join(workers))


_held: set[Claim] = set()  # what this process has begun


def withdraw_all() -> None:
    """A worker that is told to stop: its attempts do not count."""
    for claim in list(_held):
        with contextlib.suppress(OSError):
            claim.withdraw()


@contextlib.contextmanager
def released(claim: Claim) -> Iterator[Claim]:
    """Let others have a task afterwards, whatever happened."""
    try:
        yield claim
    finally:
        claim.release()


@contextlib.contextmanager
def waited_for(queue: Queue, task: str, worker: str) -> Iterator[None]:
    """Have a task as soon as no other worker has it; at once where no command works.

    Args:
        queue: The queue of the run folder.
        task: The task's name.
        worker: The worker that takes it.

    Yields:
        Nothing; the lock is held meanwhile.
    """
    pause = Pause()
    while queue.path.is_dir():
        claim = queue.claim(task, worker)
        if claim is not None:
            with released(claim):
                yield
            return
        pause.wait()
    yield
