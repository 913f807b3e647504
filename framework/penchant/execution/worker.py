"""What every worker does, wherever it runs: a free job, else a free shard of a running job."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import attrs
from penchant.errors import Error
from penchant.execution import maps
from penchant.execution.attempts import keep_result, run_job
from penchant.execution.environment import limited, place
from penchant.execution.folders import clean_state
from penchant.execution.limits import overdue, time_limit
from penchant.execution.mapping import run_shard
from penchant.execution.progress import Reporter, report, reporting
from penchant.execution.tasks import Claim, Pause, Queue, released
from penchant.experiments.jobs import Job
from penchant.results.job_folder import JobFolder
from penchant.results.result import Result

SECONDS_BETWEEN_SCANS = 2.0  # for jobs whose worker has died


@attrs.frozen(eq=False)
class Assignment:
    """What the workers of a command need to know.

    Attributes:
        folder: The run folder.
        command: The command's name.
        jobs: All jobs of the experiment.
        waiting: Ids of those to be done.
        notes: Warnings that results begin with, by job.
        devices: Workers so many numbers apart have the same device.
        threads: Threads of each.
        attempts: How often a task may crash its worker.
        listeners: Plugins that are told of results.
    """

    folder: Path
    command: str
    jobs: list[Job]
    waiting: list[str]
    notes: dict[str, str]
    devices: int
    threads: int
    attempts: int
    listeners: tuple[EntryPoint, ...] = ()

    def worker(self, number: int) -> str:
        """The name of a worker."""
        return f"{self.command}.{number}"


def work(
    assignment: Assignment, number: int, tend: Callable[[int], None] | None = None, workers: int = 1
) -> None:
    """Work until every job has ended.

    Args:
        assignment: What is to be done.
        number: A number that no other worker of the command has or had.
        tend: Where shards are left to other workers: called while they are waited for.
        workers: How many shards are done at a time.
    """
    worker = Worker(assignment, number, tend, workers)
    reporter = Reporter(worker.queue, worker.name)
    with limited(assignment.threads), reporting(reporter):
        # From now on a death is not one of a worker that could not start.
        reporter.tell({"ready": True})
        worker.check_device()
        try:
            worker.run()
        except FileNotFoundError:
            # The command has ended, or the folder was deleted.
            if worker.queue.path.is_dir():
                raise


class Worker:
    """One worker: what it knows of the jobs, and the map that it helps with."""

    def __init__(
        self,
        assignment: Assignment,
        number: int,
        tend: Callable[[int], None] | None = None,
        workers: int = 1,
    ) -> None:
        self.assignment = assignment
        self.name = assignment.worker(number)
        self.index = number % assignment.devices
        self.queue = Queue(assignment.folder)
        self.jobs = {job.id: job for job in assignment.jobs}
        self._left = dict.fromkeys(assignment.waiting)
        self._scanned = 0.0
        self._map: maps.PublishedMap | None = None
        self.tend = tend
        self.workers = workers

    def check_device(self) -> None:
        """Refuse to work on another kind of device than the results would say."""
        for job in self.assignment.jobs[:1]:
            found, _, _ = place(job.settings.device, self.index).partition(":")
            expected = job.record["device"]
            if found != expected:
                raise Error(f"a worker has the device {found}, expected {expected}")

    def run(self) -> None:
        """Work until every job has ended."""
        pause = Pause()
        idle = self.queue.path / "idle" / self.name
        try:
            while True:
                if self.do_job() or self.help():
                    idle.unlink(missing_ok=True)
                    pause.reset()
                elif self._left:
                    idle.touch()
                    pause.wait()
                else:
                    return
        finally:
            with contextlib.suppress(OSError):
                idle.unlink(missing_ok=True)

    # Jobs.

    def do_job(self) -> bool:
        """Do a job that no other worker has; False where there is none."""
        # Where all are taken, one is free again only when its worker dies.
        if time.monotonic() - self._scanned < SECONDS_BETWEEN_SCANS:
            return False
        for name in list(self._left):
            if self.queue.has_ended(name):
                del self._left[name]
                continue
            claim = self.queue.claim(name, self.name)
            if claim is None:
                continue
            with released(claim):
                del self._left[name]
                if not self.queue.has_ended(name):
                    self._do(self.jobs[name], claim)
                    return True
        self._scanned = time.monotonic()
        return False

    def _do(self, job: Job, claim: Claim) -> None:
        """Do a job and report that it has ended."""
        folder = self.assignment.folder
        job_folder = JobFolder.of(folder, job.id)
        maps.forget(self.queue, job)
        why = overdue(job.settings.time_limit, job_folder.path)
        done, note = clean_state(job_folder, job)
        # A worker may have died between its result and the end of the job.
        if done:
            pass
        elif why is not None:
            error, where = why
            keep_result(job, folder, Result(), error=error, details=where)
        elif len(claim.attempts) >= self.assignment.attempts:
            error = self.queue.crash_of("the job", claim)
            keep_result(job, folder, Result(), error=error, extra={"killed_workers": True})
        else:
            claim.begin()
            report({"job": job.id, "started": True})
            run_job(
                job,
                folder,
                pool=maps.SharingPool(self, claim),
                worker=self.index,
                note=self.assignment.notes.get(job.id, note),
                listeners=self.assignment.listeners,
            )
        self.queue.end(job.id)
        claim.finish()
        report({"job": job.id, "ended": True})

    # Shards of jobs that others run.

    def help(self) -> bool:
        """Do a shard of a job that another worker runs; False where there is none."""
        if self._map is not None and self._help(self._map):
            return True
        self._map = None
        names = self.queue.maps()
        maps.order.shuffle(names)
        for name in names:
            found = maps.opened(self.queue, name, self.jobs, self.assignment.attempts)
            if found is not None and self._help(found):
                self._map = found
                return True
        return False

    def _help(self, published: maps.PublishedMap) -> bool:
        taken = published.take(self.name)
        if taken is None:
            return False
        shard, claim = taken
        setup = published.setup
        assert setup.store is not None
        watched = self.queue.path / "deaths" / f"{self.name}.watch"
        with released(claim):
            try:
                with time_limit(setup.job.settings.time_limit, watched):
                    arrays = run_shard(setup, shard, self.index)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # not even sys.exit in a shard ends a worker
                published.fail(error)
            else:
                setup.store.write(shard, setup.digest, arrays)
                if not published.path.exists():
                    self._drop_if_late(setup.job, setup.store.path(shard))
            claim.finish()
        return True

    def _drop_if_late(self, job: Job, path: Path) -> None:
        """Remove a shard whose job has ended without it."""
        if self.queue.has_ended(job.id) or not self.queue.path.is_dir():
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()
