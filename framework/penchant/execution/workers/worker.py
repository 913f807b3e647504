"""What every worker does, wherever it runs: a free job, else a free shard of a running job."""

from __future__ import annotations

import collections
import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from penchant.errors import Error
from penchant.execution.failures import Failure, crashed
from penchant.execution.job.attempts import KILLED, add_warning, run_job, store_result
from penchant.execution.job.context import Context
from penchant.execution.job.devices import worker_device
from penchant.execution.job.mapping import Arrays, Map
from penchant.execution.queue.folders import clean_state
from penchant.execution.queue.limits import overdue, time_limit
from penchant.execution.queue.progress import Reporter, pause, report, reporting
from penchant.execution.queue.tasks import RAISED, Claim, Queue
from penchant.execution.workers.maps import Maps, PublishedMap
from penchant.experiments.jobs import Job
from penchant.results.job_folder import JobFolder
from penchant.results.result import Result

if TYPE_CHECKING:
    import torch

SECONDS_BETWEEN_SCANS = 2.0  # for jobs whose worker has died
SECONDS_TO_EXPLAIN = 5.0  # given to a command to find out how its worker died


@attrs.frozen(eq=False)
class Assignment:
    """What the workers of a command need to know."""

    folder: Path  # the run folder
    command: str  # the command's name
    jobs: list[Job]  # all jobs of the experiment
    waiting: list[str]  # ids of the jobs to be done
    notes: dict[str, str]  # warnings that results begin with, by job
    devices: int  # worker i has device i modulo this
    threads: int  # of each worker
    attempts: int  # how often a task may crash its worker
    listeners: tuple[EntryPoint, ...] = ()  # plugins that get results
    leaves_shards: bool = False  # to other workers, because the command itself is this one

    def worker(self, number: int) -> str:
        """The name of a worker."""
        return f"{self.command}.{number}"

    def device(self, number: int) -> torch.device:
        """The device of a worker."""
        return worker_device(self.jobs[0], number % self.devices)


class UnseenFolderError(Error):
    """A worker runs on a machine that does not see the run folder."""


def work(assignment: Assignment, number: int) -> None:
    """Work until every job has ended; no other worker of the command has or had this number."""
    from penchant_numerics.device import limited_threads

    queue = Queue(assignment.folder)
    if not queue.path.is_dir():
        host = socket.gethostname()
        raise UnseenFolderError(f"this machine ({host}) does not see {assignment.folder}")
    reporter = Reporter(queue, assignment.worker(number))
    with limited_threads(assignment.threads), reporting(reporter):
        try:
            Worker(assignment, number).run()
        except FileNotFoundError:
            # The command has ended, or the folder was deleted.
            if queue.path.is_dir():
                raise


class Worker:
    """One worker: the job that it does, or the map of another worker that it helps with.

    A shard that has raised, or crashed its workers too often, is left to the worker of its job:
    there the job fails with it as if nothing had been published.
    """

    def __init__(self, assignment: Assignment, number: int) -> None:
        self.assignment = assignment
        self.name = assignment.worker(number)
        self.device = assignment.device(number)
        self.queue = Queue(assignment.folder)
        self._jobs = {job.id: job for job in assignment.jobs}
        self._left = collections.deque(assignment.waiting)
        self._scanned = 0.0
        # States of the shards that it takes of other jobs, and of its own.
        self._free = range(assignment.attempts)
        self._own = [RAISED, assignment.attempts]
        if not assignment.leaves_shards:
            self._own += self._free
        self._claim: Claim | None = None  # of the job that it does
        self._maps = Maps(self.queue, self._jobs)
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
                    pause()
                else:
                    return
        finally:
            with contextlib.suppress(OSError):
                idle.unlink(missing_ok=True)

    def _crash(self, what: str, claim: Claim) -> str:
        """Why a task that was begun too often has failed."""
        deadline = time.monotonic() + SECONDS_TO_EXPLAIN
        # The command of its last worker finds out in a moment how that one died.
        while not self.queue.death(claim) and time.monotonic() < deadline:
            pause()
        how = self.queue.death(claim) or "no reason is known"
        return crashed(what, claim.attempts, how)

    # Jobs.

    def _do_job(self) -> bool:
        """Do a job that no other worker has; False where there is none."""
        # Where all are taken, one is free again only when its worker dies.
        if time.monotonic() - self._scanned < SECONDS_BETWEEN_SCANS:
            return False
        taken: list[str] = []  # by others
        try:
            while self._left:
                name = self._left.popleft()
                if self.queue.has_ended(name):
                    continue
                claim = self.queue.claim(name)
                if claim is None:
                    taken.append(name)
                    continue
                with claim:
                    if not self.queue.has_ended(name):
                        self._do(self._jobs[name], claim)
                        return True
        finally:
            self._left.extendleft(reversed(taken))
        self._scanned = time.monotonic()
        return False

    def _do(self, job: Job, claim: Claim) -> None:
        """Do a job and report that it has ended."""
        folder = self.assignment.folder
        job_folder = JobFolder.of(folder, job.id)
        self._maps.forget(job)
        late = overdue(job.settings.time_limit, job_folder.path)
        done, note = clean_state(job_folder, job)
        # A worker may have died between its result and the end of the job.
        if done and late is not None:
            add_warning(job_folder, f"figures could not be drawn: {late.text}")
        elif done:
            pass
        elif late is not None:
            store_result(job, folder, Result(), failure=late)
        elif claim.attempts >= self.assignment.attempts:
            crash = Failure(self._crash("the job", claim))
            store_result(job, folder, Result(), failure=crash, extra=KILLED)
        else:
            self._claim = claim
            self.queue.begin(claim, self.name)
            report({"job": job.id, "started": True})
            context = Context(job, folder, device=self.device, pool=self)
            note = self.assignment.notes.get(job.id, note)
            run_job(context, note=note, listeners=self.assignment.listeners)
        self.queue.end(job.id)
        claim.finish()
        report({"job": job.id, "ended": True})

    def map(self, whole: Map, shards: Sequence[int], /) -> Iterator[Arrays]:
        """Yield the answers of shards of its job; they are published when others are idle."""
        published: PublishedMap | None = None
        to_publish = len(shards) > 1
        assert self._claim is not None
        try:
            for position, shard in enumerate(shards):
                if to_publish and (self.assignment.leaves_shards or self.queue.names("idle")):
                    published = self._maps.publish(whole, shards[position:])
                    to_publish = False
                if published is None:
                    yield whole.compute(shard)
                else:
                    yield self._answer(published, shard)
                # A job that gets further is not one that crashes.
                self._claim.forgive()
        finally:
            if published is not None:
                published.close()

    def _answer(self, published: PublishedMap, shard: int) -> Arrays:
        """The answer of a shard of its job; while another worker does it, do others."""
        whole = published.map
        while not whole.has(shard):
            claim = published.take(self._own)
            if claim is None:
                pause()
                continue
            with claim:
                if claim.attempts >= self.assignment.attempts:
                    raise Error(self._crash(f"shard {whole.first + claim.number}", claim))
                self.queue.begin(claim, self.name)
                arrays = whole.compute(claim.number)
                claim.finish()
            if claim.number == shard:
                return arrays
        return whole.stored(shard)

    # Shards of other workers' jobs.

    def _help(self) -> bool:
        """Do a shard of a job that another worker runs; False where there is none."""
        if self._map is not None and self._do_shard(self._map):
            return True
        self._map = self._opened = None
        return any(map(self._do_shard, self._maps.published()))

    def _do_shard(self, published: PublishedMap) -> bool:
        """Do a shard of a map; False where none is free."""
        claim = published.take(self._free)
        if claim is None:
            return False
        watched = self.queue.path / "watched" / self.name
        with claim:
            self.queue.begin(claim, self.name)
            try:
                if self._opened is None or self._map is not published:
                    self._opened, self._map = published.open(self.device), published
                with time_limit(published.job.settings.time_limit, watched):
                    arrays = self._opened.run(claim.number)
            except KeyboardInterrupt:
                raise
            except BaseException:  # not even sys.exit in a shard ends a worker
                # The job's own worker does it once more, and fails with it.
                claim.finish(RAISED)
            else:
                self._opened.write(claim.number, arrays)
                claim.finish()
                # The job may have ended without it.
                if self.queue.has_ended(published.job.id):
                    self._opened.remove(claim.number)
        return True
