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
from penchant.execution.attempts import run_job, store_result
from penchant.execution.devices import Device, resolve_device
from penchant.execution.failures import Failure
from penchant.execution.folders import clean_state
from penchant.execution.limits import overdue, time_limit
from penchant.execution.mapping import Map
from penchant.execution.maps import PublishedMap
from penchant.execution.progress import Reporter, report, reporting
from penchant.execution.tasks import PAUSE, Claim, Queue
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
        waiting: Ids of the jobs to be done.
        notes: Warnings that results begin with, by job.
        devices: Number of devices; worker i has device i modulo this.
        threads: Threads of each worker.
        attempts: How often a task may crash its worker.
        listeners: Plugins that get results.
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

    def device(self, number: int) -> Device:
        """The device of a worker, which must be of the kind that results will name."""
        job = self.jobs[0]
        device = resolve_device(job.settings.device, number % self.devices)
        expected = job.record["device"]
        if device.kind != expected:
            raise Error(f"a worker has the device {device.kind}, expected {expected}")
        return device


def work(assignment: Assignment, number: int, tend: Callable[[int], None] | None = None) -> None:
    """Work until every job has ended.

    Args:
        assignment: What is to be done.
        number: A number that no other worker of the command has or had.
        tend: Where shards are left to other workers: called while they are waited for, with the
            number of shards.
    """
    from penchant_numerics.isolation import limited_threads

    queue = Queue(assignment.folder)
    reporter = Reporter(queue, assignment.worker(number))
    with limited_threads(assignment.threads), reporting(reporter):
        try:
            Worker(assignment, number, tend).run()
        except FileNotFoundError:
            # The command has ended, or the folder was deleted.
            if queue.path.is_dir():
                raise


class Worker:
    """One worker: what it knows of the jobs, and the map that it helps with."""

    def __init__(
        self, assignment: Assignment, number: int, tend: Callable[[int], None] | None = None
    ) -> None:
        """As `work`."""
        self.assignment = assignment
        self.name = assignment.worker(number)
        self.device = assignment.device(number)
        self.queue = Queue(assignment.folder)
        self.tend = tend
        self._jobs = {job.id: job for job in assignment.jobs}
        self._left = dict.fromkeys(assignment.waiting)
        self._scanned = 0.0
        self._maps: dict[str, PublishedMap | None] = {}
        self._map: PublishedMap | None = None  # the one that it helps with, opened
        self._opened: Map | None = None

    def run(self) -> None:
        """Take a free job, else a free shard, else wait, until every job has ended."""
        idle = self.queue.path / "idle" / self.name
        try:
            while True:
                if self._do_job() or self._help():
                    idle.unlink(missing_ok=True)
                elif self._left:
                    idle.touch()
                    time.sleep(PAUSE)
                else:
                    return
        finally:
            with contextlib.suppress(OSError):
                idle.unlink(missing_ok=True)

    def _do_job(self) -> bool:
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
            with claim:
                del self._left[name]
                if not self.queue.has_ended(name):
                    self._do(self._jobs[name], claim)
                    return True
        self._scanned = time.monotonic()
        return False

    def _do(self, job: Job, claim: Claim) -> None:
        """Do a job and report that it has ended."""
        folder = self.assignment.folder
        job_folder = JobFolder.of(folder, job.id)
        maps.forget(self.queue, job)
        late = overdue(job.settings.time_limit, job_folder.path)
        done, note = clean_state(job_folder, job)
        # A worker may have died between its result and the end of the job.
        if done:
            pass
        elif late is not None:
            store_result(job, folder, Result(), failure=late)
        elif len(claim.attempts) >= self.assignment.attempts:
            crash = Failure(self.queue.crash_of("the job", claim))
            store_result(job, folder, Result(), failure=crash, extra={"killed_workers": True})
        else:
            claim.begin()
            report({"job": job.id, "started": True})
            run_job(
                job,
                folder,
                pool=maps.SharingPool(self, claim),
                device=self.device,
                note=self.assignment.notes.get(job.id, note),
                listeners=self.assignment.listeners,
            )
        self.queue.end(job.id)
        claim.finish()
        report({"job": job.id, "ended": True})

    def _help(self) -> bool:
        """Do a shard of a job that another worker runs; False where there is none."""
        if self._map is not None and self._do_shard(self._map):
            return True
        # Maps are remembered: those of many shards take long to read.
        names = self.queue.maps()
        maps.order.shuffle(names)
        self._maps = {
            name: self._maps.get(name) or maps.opened(self.queue, name, self._jobs)
            for name in names
        }
        self._map = self._opened = None
        return any(self._do_shard(each) for each in self._maps.values() if each is not None)

    def _do_shard(self, published: PublishedMap) -> bool:
        """Do a shard of a map; False where none is free."""
        taken = published.take(self.name, self.assignment.attempts)
        if taken is None:
            return False
        shard, claim = taken
        watched = self.queue.path / "deaths" / f"{self.name}.watch"
        with claim:
            try:
                if self._map is not published:
                    self._opened, self._map = published.open(self.device), published
                assert self._opened is not None
                with time_limit(published.job.settings.time_limit, watched):
                    arrays = self._opened.run(shard)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # not even sys.exit in a shard ends a worker
                published.fail(error)
                claim.finish()
            else:
                published.store.write(shard, arrays)
                if not published.is_open():
                    self._drop_if_late(published.job, published.store.path(shard))
                published.finish(claim)
        return True

    def _drop_if_late(self, job: Job, path: Path) -> None:
        """Remove a shard whose job has ended without it."""
        if self.queue.has_ended(job.id) or not self.queue.path.is_dir():
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()
