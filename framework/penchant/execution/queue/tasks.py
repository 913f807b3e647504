"""Tasks: a job, or a shard of a job that runs; the run folder is their queue.

A task is done when its result exists, taken while its lock is held, and free otherwise. The
operating system releases a lock when its holder dies, however it dies. Attempts are counted: a task
that was begun several times without a result has failed.

A task has one byte of a file. The lock of that byte is the lock of the task, and its value says how
often the task was begun without a result, or that it is done: claiming a shard makes no file.

What workers need to know of each other is in `queue/` of the run folder, as long as commands work
there:

* `commands/`: the commands at work, each with a lock that it holds until it ends;
* `locks/`: a file per job that was begun;
* `maps/`: maps whose shards any worker may do, each with one file of a byte per shard;
* `ended/`: a file for every job that has ended, well or not;
* `idle/`, `progress/`: workers that wait, and how far each worker is;
* `tasks/`, `deaths/`: the tasks that each worker has begun, and how the last worker of a task died;
* `watched/`: a folder per worker with where it was when the time of its shard was over.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import attrs
from penchant.execution.queue.locks import lock

DONE = 255  # the byte of a task that is done; below `RAISED` it is a number of attempts
RAISED = 254  # of a shard that has raised in a worker which is not its job's own
FOLDERS = ("commands", "locks", "maps", "ended", "idle", "progress", "tasks", "deaths", "watched")


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

    def names(self, folder: str) -> list[str]:
        """Names in one of the folders: maps, idle workers, jobs that have ended."""
        with contextlib.suppress(FileNotFoundError):
            return [entry.name for entry in os.scandir(self.path / folder)]
        return []

    def claim(self, job: str) -> Claim | None:
        """Take a job; None where another worker has it."""
        path = self.path / "locks" / job
        path.touch()
        return Claim.take(path)

    def begin(self, claim: Claim, worker: str) -> None:
        """Count an attempt of a worker at a task."""
        if claim.attempts:
            # How its last worker died is known once the worker of this attempt has died.
            (self.path / "deaths" / claim.name).unlink(missing_ok=True)
        claim.begin()
        names = [each.name for each in list(_begun)]
        (self.path / "tasks" / worker).write_text("\n".join(names))

    def end(self, job: str) -> None:
        """Note that a job has ended."""
        (self.path / "ended" / job).touch()

    def has_ended(self, job: str) -> bool:
        """Has this job ended since the first of these commands came?"""
        return (self.path / "ended" / job).exists()

    def note_death(self, worker: str, how: str) -> None:
        """Note how a worker died, for the tasks that it had begun."""
        with contextlib.suppress(FileNotFoundError):
            for name in (self.path / "tasks" / worker).read_text().splitlines():
                (self.path / "deaths" / name).write_text(how)

    def death(self, claim: Claim) -> str:
        """How the last worker of a task died; empty until its command has found out."""
        with contextlib.suppress(FileNotFoundError):
            return (self.path / "deaths" / claim.name).read_text()
        return ""


class Claim:
    """A task that is taken: its lock, and how often it was begun without a result.

    `with claim:` lets others have the task afterwards, whatever happened.
    """

    def __init__(self, path: Path, number: int, descriptor: int) -> None:
        self.number = number
        self.name = f"{path.parent.name}-{path.name}-{number}"
        self._descriptor = descriptor
        self.state = int.from_bytes(os.pread(descriptor, 1, number), "big")
        self.attempts = 0 if self.state >= RAISED else self.state

    @classmethod
    def take(cls, path: Path, number: int = 0) -> Claim | None:
        """Lock a byte of a file; None where another worker has. A file that is gone is not made."""
        descriptor = os.open(path, os.O_RDWR)
        try:
            if lock(descriptor, number):
                return cls(path, number, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def begin(self) -> None:
        """Count an attempt."""
        self._write(self.attempts + 1)
        _begun.add(self)

    def forgive(self) -> None:
        """Forget earlier attempts: this one gets further."""
        if self.attempts:
            self.attempts = 0
            self._write(1)

    def withdraw(self) -> None:
        """Forget this attempt: it ends for another reason than the task."""
        self._write(self.attempts)

    def finish(self, state: int = DONE) -> None:
        """Let no worker begin the task again."""
        _begun.discard(self)
        self._write(state)

    def release(self) -> None:
        """Let others have the task."""
        _begun.discard(self)
        os.close(self._descriptor)

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def _write(self, state: int) -> None:
        os.pwrite(self._descriptor, bytes([state]), self.number)


_begun: set[Claim] = set()  # tasks that this process has begun


def withdraw_all() -> None:
    """Let the attempts of a worker that must stop not count."""
    for claim in list(_begun):
        with contextlib.suppress(OSError):
            claim.withdraw()
