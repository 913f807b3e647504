"""Runs an experiment in a folder: here or in workers, resumed where it was stopped; prints nothing.

Whatever one job, figure or listener does, the others go on. Results are the truth; figures come
after them, and are drawn again where a run was stopped before them.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
from penchant.components.builtin import Processes, Serial
from penchant.components.component import Executor
from penchant.components.targets import resolve
from penchant.errors import Error
from penchant.execution.job.attempts import REDUCED
from penchant.execution.job.devices import default_workers, job_device
from penchant.execution.job.environment import environment
from penchant.execution.job.loading import check_files, fetch
from penchant.execution.platform import check_torch
from penchant.execution.queue.folders import (
    check_local,
    joined,
    move_aside,
    still_to_do,
    write_experiment,
)
from penchant.execution.queue.limits import (
    TerminatedError,
    attempt_noted,
    ended_its_command,
    raising,
)
from penchant.execution.queue.locks import PAUSE
from penchant.execution.queue.progress import Follower, Message, watching
from penchant.execution.queue.tasks import Queue
from penchant.execution.selection import selected
from penchant.execution.workers.engines import Engine, Order, Server
from penchant.execution.workers.executors import Team
from penchant.execution.workers.processes import start_server
from penchant.execution.workers.worker import Assignment, work
from penchant.experiments.experiment import Experiment
from penchant.experiments.jobs import Job, serial_reason
from penchant.experiments.settings import Settings
from penchant.plugins.discovery import Plugins
from penchant.results.files import writing_failed
from penchant.results.job_folder import JobFolder
from penchant.results.records import JobEntry, RunRecord
from penchant.results.runs import Run

Notify = Callable[..., object]

SECONDS_BETWEEN_LISTINGS = 1.0  # of the jobs that have ended, where a message was lost
LEAST_PAUSE = 20.0  # times what a listing took: of many jobs it takes long


def run_experiment(
    experiment: Experiment,
    plugins: Plugins,
    folder: Path,
    *,
    fresh: bool = False,
    only: Sequence[str] = (),
    temporary: bool = False,
) -> Run:
    """Run or resume an experiment in a folder; listeners are called with events.

    Args:
        experiment: What to run.
        plugins: Where executors are found, and who listens to events.
        folder: The run folder.
        fresh: Move an old run in this folder aside.
        only: Patterns of the jobs to run; none: all of them.
        temporary: The folder is deleted when the run ends, so that nothing need be drawn there.

    Returns:
        The run.
    """
    check_torch()
    check_local(folder)
    # A probe that changes the working directory must not move the folder.
    folder = folder.absolute()
    executor = experiment.executor
    with contextlib.suppress(OSError):  # a folder that cannot be made is refused below
        if not folder.exists() and _may_start_processes(experiment):
            # The server of workers loads torch while this process does.
            start_server()
    find_device = functools.partial(job_device, experiment.settings.device)
    # Where workers are on other machines, those know the device.
    kind, gpu = executor.ask(find_device) if executor is not None else find_device()
    fetch(experiment)
    jobs = experiment.jobs(kind, gpu)
    chosen = selected(jobs, only)
    executor = _executor(experiment, chosen)
    # Workers on other machines may have files that this one has not.
    if not type(executor).remote:
        check_files(chosen)
    # Clusters send it before they kill.
    terminable = raising(signal.SIGTERM, TerminatedError("terminated"))
    try:
        if fresh and folder.exists():
            move_aside(folder)
        engine = executor.name if type(executor).engine else ""
        with joined(folder, jobs, engine) as (name, others), terminable:
            command = _Command(experiment, plugins, folder, name, others, jobs, chosen, temporary)
            return command.run(executor)
    except OSError as error:
        raise writing_failed(folder, error) from error


def _executor(experiment: Experiment, jobs: list[Job]) -> Executor:
    """The executor of the experiment; without one, processes where every job can be sent."""
    # One job that cannot be sent keeps the whole run in this process.
    reason = next(filter(None, map(serial_reason, jobs)), "")
    executor = experiment.executor
    if executor is None:
        return Serial() if reason or _workers(experiment) == 1 else Processes()
    if reason and executor.name != "serial":
        raise Error(f"{reason}, or use the executor serial")
    return executor


def _may_start_processes(experiment: Experiment) -> bool:
    """Will several jobs run in processes, as far as can be known without torch?"""
    seeds = len(experiment.settings.seeds)
    jobs = sum(seeds * math.prod(map(len, probe.axes.values())) for probe in experiment.probes)
    if experiment.executor is None:
        return jobs > 1 and (experiment.settings.workers or os.cpu_count()) != 1
    return jobs > 1 and type(experiment.executor) is Processes


def _workers(experiment: Experiment) -> int:
    """How many workers this machine is given."""
    settings = experiment.settings
    return settings.workers or default_workers(settings)


@attrs.define(eq=False)
class _Command:
    """Everything between joining the work on a folder and leaving it."""

    experiment: Experiment
    plugins: Plugins
    folder: Path
    name: str
    others: list[str]  # commands that were at work in the folder
    jobs: list[Job]
    selected: list[Job]
    temporary: bool

    @property
    def settings(self) -> Settings:
        """What holds for the whole experiment."""
        return self.experiment.settings

    def run(self, executor: Executor) -> Run:
        """Run what is still to be done."""
        write_experiment(self.folder, self.experiment)
        waiting, notes = still_to_do(self.folder, self.selected, alone=not self.others)
        for job in waiting if self.settings.executor is None else ():
            if reason := serial_reason(job):
                notes.setdefault(job.id, f"runs with the executor serial only: {reason}")
        run = self._begin(waiting)
        try:
            if waiting:
                self._work(run, waiting, notes, executor)
        except BaseException as error:
            run.record["stopped"] = _one_line(error)
            raise
        finally:
            self._end(run)
        return run

    def _work(
        self, run: Run, waiting: list[Job], notes: dict[str, str], executor: Executor
    ) -> None:
        """Have workers or an engine do every job that waits."""
        if type(executor).engine:
            return self._run_engine(run, waiting, notes, executor)
        remote = type(executor).remote
        workers = self.settings.workers if remote else _workers(self.experiment)
        assignment = Assignment(
            self.folder,
            self.name,
            self.jobs,
            [job.id for job in waiting],
            notes,
            devices=workers or 1,
            threads=self.settings.threads,
            attempts=type(executor).attempts,
            listeners=self.plugins.listening("penchant_result_stored"),
        )
        team = Team(executor, assignment, workers)
        watch = _Watch(run, waiting, team, self.plugins.announce)
        try:
            if len(waiting) == 1 and not self.others and type(executor) is Processes:
                self._work_alone(assignment, watch)
            else:
                watch.until_done()
        finally:
            team.stop()

    def _work_alone(self, assignment: Assignment, watch: _Watch) -> None:
        """Do a single job here, and its shards in workers: it need not wait for these."""
        (job,) = watch.left.values()
        dangerous = self._is_dangerous(job)
        with attempt_noted(JobFolder.of(self.folder, job.id).path):
            if not dangerous:
                with watching(watch.tend):
                    # The device is that of worker 0; its number is that of no other worker.
                    work(attrs.evolve(assignment, leaves_shards=True), -assignment.devices)
            watch.until_done()

    def _run_engine(
        self, run: Run, waiting: list[Job], notes: dict[str, str], executor: Executor
    ) -> None:
        """Have an engine do every job that waits, and store what it gives."""
        settings = self.settings
        start = resolve(type(executor).target, f"executor {executor.name!r}")
        engine: Engine = start(executor, None, settings.workers, settings.threads)
        watch = _Watch(run, waiting, None, self.plugins.announce)
        server = Server(self.folder, waiting, type(executor).attempts, watch.on_message)
        listeners = self.plugins.listening("penchant_result_stored")
        orders = [Order.of(job, notes.get(job.id, ""), listeners) for job in waiting]
        try:
            for name, outcome in engine.run(orders, server):
                server.finish(name, outcome)
        finally:
            engine.stop()
            server.close()

    def _is_dangerous(self, job: Job) -> bool:
        """Must a job run in a worker?

        One that crashed its workers or its command before would crash this process, and one with a
        time limit can be stopped only with its process, whatever it does.
        """
        job_folder = JobFolder.of(self.folder, job.id)
        crashed = job_folder.crashed_workers() or ended_its_command(job_folder.path)
        return crashed or job.settings.time_limit is not None

    def _begin(self, waiting: list[Job]) -> Run:
        """Write the run with all its jobs before the first of them starts."""
        unfinished = {job.id for job in waiting}
        selected = {job.id for job in self.selected}
        entries: list[JobEntry] = []
        for job in self.jobs:
            status = "pending" if job.id in unfinished else "done"
            if job.id not in selected:
                # Another command may compute it: its result says.
                status = JobFolder.of(self.folder, job.id).status()
            path = f"jobs/{job.id}"
            entries.append({"id": job.id, "status": status, "labels": job.labels, "path": path})
        settings = self.settings
        record: RunRecord = {
            "title": settings.title,
            "seeds": list(settings.seeds),
            "threads": settings.threads,
            "environment": environment(),
            "jobs": entries,
        }
        if settings.quick:
            record["reduced"] = REDUCED
        if not settings.figures:
            record["figures"] = False
        if settings.time_limit is not None:
            record["time_limit"] = settings.time_limit
        run = Run(
            self.folder, record, selected=selected, temporary=self.temporary, plugins=self.plugins
        )
        run.others = self.others
        run.write()
        self.plugins.announce("penchant_run_started", run=run)
        return run

    def _end(self, run: Run) -> None:
        """Leave a record that says what is missing, and why."""
        selected = {job.id for job in self.selected}
        for job in run.jobs:
            job_folder = JobFolder.of(self.folder, job["id"])
            # One that was stopped is not running any more; others may have ended elsewhere.
            if job["status"] == "running":
                job["status"] = "pending"
            elif job["id"] not in selected:
                job["status"] = job_folder.status()
            elif job["status"] == "done" and not job_folder.result.is_file():
                job.update({"status": "pending", "error": "its result has been deleted"})
        # Networks stay for jobs that still need them.
        if all(job["status"] == "done" for job in run.jobs) and not self.settings.store_networks:
            shutil.rmtree(self.folder / "networks", ignore_errors=True)
        run.write()
        self.plugins.announce("penchant_run_finished", run=run)


def _one_line(error: BaseException) -> str:
    """Why a run stopped."""
    kind = "interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__
    return (str(error) or kind).partition("\n")[0]


class _Watch:
    """Follows all workers of the folder, and calls listeners."""

    def __init__(self, run: Run, waiting: list[Job], team: Team | None, notify: Notify) -> None:
        self.run = run
        self.queue = Queue(run.folder)
        self.team = team
        self.notify = notify
        self.left = {job.id: job for job in waiting}
        self._follower = Follower(self.queue)
        self._stdout = sys.stdout
        self._next_listing = 0.0  # not before this time
        self.shards = 0  # the most that any job has had left

    def until_done(self) -> None:
        """Wait until every job has ended; start workers for those that die."""
        while self.left:
            # A worker in this very thread works now.
            with watching(self.look):
                self.tend(len(self.left))
            if self.left:
                time.sleep(PAUSE)

    def tend(self, jobs: int = 0) -> None:
        """Have a worker for every job or shard, as far as there is room; see what they do."""
        assert self.team is not None
        self.team.grow(max(jobs, self.shards))
        self.look()
        self.team.tend()

    def look(self) -> None:
        """Read what has happened since the last call."""
        # A probe in this thread has none: what it prints is no result.
        with contextlib.redirect_stdout(self._stdout):
            for message in self._follower.messages():
                self._on_message(message)
            began = time.monotonic()
            if began > self._next_listing:
                missed = [job for job in self.queue.names("ended") if job in self.left]
                took = time.monotonic() - began
                self._next_listing = began + max(SECONDS_BETWEEN_LISTINGS, LEAST_PAUSE * took)
                for job in missed:
                    self._ended(job)

    def on_message(self, message: Message) -> None:
        """Mark the job, and call listeners."""
        with contextlib.redirect_stdout(self._stdout):
            self._on_message(message)

    def _on_message(self, message: Message) -> None:
        job = message.get("job")
        # Others may work on jobs that this command does not run.
        if job not in self.left:
            return
        if "started" in message:
            self.run.mark(job, "running")
            self.notify("penchant_job_started", run=self.run, job=job)
        elif "ended" in message:
            self._ended(job)
        else:
            self.notify("penchant_progress", **message)
            left = message["total"] - message["done"]
            # A single shard is done by the worker of its job.
            if message["what"] == "shards" and left > 1:
                self.shards = max(self.shards, left)

    def _ended(self, name: str) -> None:
        job = self.left.pop(name, None)
        if job is None:
            return
        # With arrays: a tracker may draw figures from them.
        result = self.run.result(name)
        if result.status == "done":
            # A worker may have stored a shard too late.
            shutil.rmtree(JobFolder.of(self.run.folder, name).shards, ignore_errors=True)
        self.run.mark(name, result.status, result.error or "")
        self.notify("penchant_job_finished", run=self.run, job=job, result=result)
