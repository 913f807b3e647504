"""Tasks: a job, or a shard of a job that runs; the run folder is their queue.

A task is done when its result exists, taken while its lock is held, and free otherwise. The
operating system releases a lock when its holder dies, however it dies. Attempts are counted: a task
that was begun several times without a result has failed.

What workers need to know of each other is in `queue/` of the run folder, as long as commands work
there:

* `commands/`: the commands at work, each with a lock that it holds until it ends;
* `locks/`: a file per job that was begun, locked by its worker;
* `maps/`: maps whose shards any worker may do, each with one file for the locks of all shards;
* `ended/`: a file for every job that has ended, well or not;
* `idle/`, `progress/`, `deaths/`: workers that wait, how far each worker is, how it died.

A task has `SLOT` bytes of a file. Their lock is the lock of the task, and they name the workers
that began it and have left no result: claiming a shard makes no file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import time
from pathlib import Path

import attrs

PAUSE = 0.03  # seconds before files that others write are read again
SECONDS_TO_EXPLAIN = 5.0  # given to a command to find out how its worker died
SLOT = 128  # bytes: the names of a few workers
DONE = "done"  # in a slot: its task has a result
FOLDERS = ("commands", "locks", "ended", "maps", "idle", "progress", "deaths")


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
        for name in FOLDERS:
            (self.path / name).mkdir(parents=True, exist_ok=True)

    def remove(self) -> None:
        """Remove everything; only where no other command works."""
        shutil.rmtree(self.path, ignore_errors=True)

    def claim(self, job: str, worker: str) -> Claim | None:
        """Take a job; None where another worker has it."""
        path = self.path / "locks" / job
        path.touch()
        return Claim.take(path, 0, worker)

    def end(self, job: str) -> None:
        """Note that a job has ended."""
        (self.path / "ended" / job).touch()

    def has_ended(self, job: str) -> bool:
        """Has this job ended since the first of these commands came?"""
        return (self.path / "ended" / job).exists()

    def ended(self) -> list[str]:
        """Ids of all jobs that have ended."""
        return self._names("ended")

    def has_idle(self) -> bool:
        """Does any worker wait for something to do?"""
        return bool(self._names("idle"))

    def maps(self) -> list[str]:
        """Names of the published maps."""
        return self._names("maps")

    def _names(self, folder: str) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return [path.name for path in (self.path / folder).iterdir()]
        return []

    def note_death(self, worker: str, how: str) -> None:
        """Note how a worker died."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / "deaths" / worker).write_text(how)

    def crash_of(self, what: str, claim: Claim) -> str:
        """Why a task that was begun too often has failed."""
        how = self._how_died(claim.attempts[-1])
        crashes = f"{what} crashed its worker {len(claim.attempts)} times (last: {how})"
        return f"{crashes}. If memory ran out, use fewer workers."

    def _how_died(self, worker: str) -> str:
        """How a worker died, as the command that started it will have found out in a moment."""
        deadline = time.monotonic() + SECONDS_TO_EXPLAIN
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                return (self.path / "deaths" / worker).read_text()
            time.sleep(PAUSE)
        return "no reason is known"


class Claim:
    """A task that is taken: its lock, and the workers that began it without a result.

    `with claim:` lets others have the task afterwards, whatever happened.
    """

    def __init__(self, descriptor: int, number: int, worker: str) -> None:
        self.number = number
        self._descriptor = descriptor
        self._worker = worker
        names = os.pread(descriptor, SLOT, number * SLOT).decode().replace("\0", " ").split()
        self.is_done = names == [DONE]
        self.attempts = [] if self.is_done else names

    @classmethod
    def take(cls, path: Path, number: int, worker: str) -> Claim | None:
        """Lock a task for a worker.

        Args:
            path: The file of its lock, which is not made again where it has been removed.
            number: The task's number in that file.
            worker: The worker's name.

        Returns:
            The claim; None where another worker has the task.
        """
        descriptor = os.open(path, os.O_RDWR)
        if _lock(descriptor, number * SLOT):
            return cls(descriptor, number, worker)
        os.close(descriptor)
        return None

    def begin(self) -> None:
        """Count an attempt."""
        self._write([*self.attempts, self._worker])
        _begun.add(self)

    def forgive(self) -> None:
        """Forget earlier attempts: this one gets further."""
        if self.attempts:
            self.attempts = []
            self._write([self._worker])

    def withdraw(self) -> None:
        """Forget this attempt: it ends for another reason than the task."""
        self._write(self.attempts)

    def finish(self, *, done: bool = False) -> None:
        """Forget all attempts; `done` tells the next worker that the task has a result."""
        _begun.discard(self)
        self._write([DONE] if done else [])

    def release(self) -> None:
        """Let others have the task."""
        _begun.discard(self)
        os.close(self._descriptor)

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def _write(self, workers: list[str]) -> None:
        text = " ".join(workers).encode().ljust(SLOT)
        os.pwrite(self._descriptor, text, self.number * SLOT)


def _lock(descriptor: int, start: int) -> bool:
    """Lock a slot without waiting; False where it is locked already."""
    try:
        if hasattr(fcntl, "F_OFD_SETLK"):
            # Locks of an open file hold between threads as well; `struct flock` of Linux.
            request = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, start, SLOT, 0)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
        else:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, SLOT, start)
    except (BlockingIOError, PermissionError):
        return False
    return True


_begun: set[Claim] = set()  # tasks that this process has begun


def withdraw_all() -> None:
    """Let the attempts of a worker that must stop not count."""
    for claim in list(_begun):
        with contextlib.suppress(OSError):
            claim.withdraw()
