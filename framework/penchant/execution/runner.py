"""Runs jobs: in order or spread over workers, resumed where they were; prints nothing.

Whatever one job, figure or listener does, the others go on. Results are the truth; figures come
after them, and are drawn again where a run was stopped before them.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from penchant.errors import Error
from penchant.execution.attempts import REDUCED, Notify, keep_result, run_job
from penchant.execution.environment import default_workers, environment, job_device
from penchant.execution.fetching import fetch
from penchant.execution.folders import (
    check_folder,
    locked,
    move_aside,
    still_to_do,
    write_experiment,
)
from penchant.execution.limits import overdue, terminable
from penchant.execution.pools import RemoteError, WorkersDiedError
from penchant.execution.scheduling import start_pool
from penchant.execution.selection import Part, selected
from penchant.execution.serving import pool_here, report
from penchant.experiments.experiment import Experiment
from penchant.experiments.jobs import Job, serial_reason
from penchant.plugins.discovery import Plugins
from penchant.results.files import sweep, writing_failed
from penchant.results.result import Result
from penchant.results.runs import Run, make_folder, status_of

# What the report says above a run of `--quick`.


def run_experiment(
    experiment: Experiment,
    plugins: Plugins,
    folder: Path,
    *,
    fresh: bool = False,
    only: Sequence[str] = (),
    part: Part | None = None,
    temporary: bool = False,
) -> Run:
    """Run or resume an experiment in a folder; events tell what happens.

    Args:
        experiment: What to run.
        plugins: Where executors are found, and who listens to events.
        folder: The run folder.
        fresh: Move an old run in this folder aside.
        only: Patterns of the jobs to run; none: all of them.
        part: Which part of these, where several processes share a folder.
        temporary: The folder is deleted when the run ends, so that nothing need be drawn there.

    Returns:
        The run.
    """
    # A probe that changes the working directory must not move the folder.
    folder = folder.absolute()
    kind, gpu = job_device(experiment.settings.device)
    fetch(experiment)
    jobs = experiment.jobs(kind, gpu)
    chosen = selected(jobs, only, part)
    if fresh and part is not None:
        raise Error("a part of a run never moves the folder aside: run once with fresh, then parts")
    pool = _pool(experiment, plugins, chosen)
    try:
        with contextlib.closing(pool):
            if fresh:
                move_aside(folder)
            check_folder(folder, jobs)
            make_folder(folder)
            with locked(folder, part), terminable():
                # Parts share a folder: what one of them finds there another may be writing.
                if part is None:
                    sweep(folder)
                course = _Course(experiment, plugins, folder, jobs, chosen, temporary)
                return course.run(pool)
    except OSError as error:
        raise writing_failed(folder, error) from error


def _pool(
    experiment: Experiment,
    plugins: Plugins,
    jobs: list[Job],
) -> Any:
    """The executor that was asked for; without one, processes where every job can be sent."""
    settings = experiment.settings
    # One job that cannot be sent keeps the whole run in this process.
    reasons = map(serial_reason, jobs)
    reason = next(filter(None, reasons), "")
    executor: Any = experiment.executor
    if executor is None:
        alone = bool(reason)
        if not alone:
            count = settings.workers or default_workers(settings)
            alone = count == 1
        name = "serial" if alone else "processes"
        executor = plugins.find("executor", name, "executor").component()
    if reason and executor.name != "serial":
        raise Error(f"{reason}, or use the executor serial")
    workers = settings.workers
    if not type(executor).counts_workers:
        workers = workers or default_workers(settings)
    return start_pool(executor, workers, settings.threads)


class _Course:
    """Everything between taking the lock of a folder and leaving it."""

    def __init__(
        self,
        experiment: Experiment,
        plugins: Plugins,
        folder: Path,
        jobs: list[Job],
        chosen: list[Job],
        temporary: bool,
    ) -> None:
        self.experiment = experiment
        self.settings = experiment.settings
        self.folder = folder
        self.jobs = jobs
        self.chosen = chosen
        self.temporary = temporary
        self.notify = _notifier(plugins)

    def run(self, pool: Any) -> Run:
        """Run what is still to be done."""
        write_experiment(self.folder, self.experiment)
        waiting, notes = still_to_do(self.folder, self.chosen)
        if self.settings.executor is None:
            for job in waiting:
                reason = serial_reason(job)
                if reason:
                    notes.setdefault(job.id, f"runs with the executor serial only: {reason}")
        run = self._begun(waiting)
        # Listeners hear what workers report as well as what happens here.
        pool.listener = functools.partial(_heard, run, self.notify)
        self.notify("penchant_run_started", run=run)
        try:
            self._work(run, waiting, notes, pool)
        except BaseException as error:
            run.record["stopped"] = _one_line(error)
            raise
        finally:
            self._end(run)
        return run

    def _work(
        self,
        run: Run,
        waiting: list[Job],
        notes: dict[str, str],
        pool: Any,
    ) -> None:
        """Every job that waits."""
        for job, result in _results(waiting, notes, run, pool, self.notify):
            error = result.error or ""
            run.mark(job.id, result.status, error)
            self.notify("penchant_job_finished", run=run, job=job, result=result)

    def _begun(self, waiting: list[Job]) -> Run:
        """The run with all its jobs, written before the first of them starts."""
        unfinished = {job.id for job in waiting}
        asked = {job.id for job in self.chosen}
        entries = []
        for job in self.jobs:
            status = "pending" if job.id in unfinished else "done"
            if job.id not in asked:
                # Others compute it, or nobody: its result says.
                status = status_of(self.folder / "jobs" / job.id)
            entry = {
                "id": job.id,
                "status": status,
                "labels": job.labels,
                "path": f"jobs/{job.id}",
            }
            entries.append(entry)
        record = {
            "title": self.settings.title,
            "seeds": list(self.settings.seeds),
            "threads": self.settings.threads,
            "environment": environment(),
            "jobs": entries,
        }
        if self.settings.quick:
            record["reduced"] = REDUCED
        if not self.settings.figures:
            record["figures"] = False
        run = Run(self.folder, record, asked=asked, temporary=self.temporary)
        run.write()
        return run

    def _end(self, run: Run) -> None:
        """Leave a record that says what is missing, and why."""
        asked = {job.id for job in self.chosen}
        for job in run.jobs:
            place_of_job = run.place(job["id"])
            status = job["status"]
            # One that was stopped is not running any more; others may have ended elsewhere.
            if status == "running":
                job["status"] = "pending"
            elif job["id"] not in asked:
                job["status"] = status_of(place_of_job)
            elif status == "done":
                result = place_of_job / "result.json"
                if not result.is_file():
                    job.update(status="pending", error="somebody has deleted its result")

        # Networks are kept for jobs that still need them.
        complete = all(job["status"] == "done" for job in run.jobs)
        if complete and not self.settings.keep_networks:
            networks = self.folder / "networks"
            shutil.rmtree(networks, ignore_errors=True)

        run.write()
        self.notify("penchant_run_finished", run=run)


def _heard(
    run: Run,
    notify: Notify,
    message: dict[str, Any],
) -> None:
    """What a worker tells: that a job began, or how far it is."""
    if "started" in message:
        _started(run, notify, message["started"])
    else:
        notify("penchant_progress", **message)


def _started(
    run: Run,
    notify: Notify,
    job: str,
) -> None:
    run.mark(job, "running")
    notify("penchant_job_started", run=run, job=job)


def _one_line(error: BaseException) -> str:
    """Why a run stopped."""
    kind = type(error).__name__
    if isinstance(error, KeyboardInterrupt):
        kind = "interrupted"
    text = str(error) or kind
    line, _, _ = text.partition("\n")
    return line


def _notifier(plugins: Plugins) -> Notify:
    """Calls event hooks; a listener that fails is reported as a warning and hurts nothing."""

    def notify(hook: str, **arguments: Any) -> None:
        for problem in plugins.notify(hook, **arguments):
            _warn(problem)

    return notify


def _warn(text: str) -> None:
    """Show a warning; even with -W error it must not stop the run."""
    with contextlib.suppress(Warning):
        warnings.warn(text, stacklevel=2)


def _results(
    waiting: list[Job],
    notes: dict[str, str],
    run: Run,
    pool: Any,
    notify: Notify,
) -> Iterator[tuple[Job, Result]]:
    """Several jobs are spread over workers, which lend each other shards; one runs here.

    A job that killed its workers before is always given to a worker: it would kill this process.
    So is one with a limit of time: only a worker can be stopped whatever it does.
    """
    killers = [job for job in waiting if job.record.get("killed_workers")]
    limited = [job for job in waiting if job.settings.time_limit is not None]
    spread = len(waiting) > 1 or killers or limited
    if pool.workers > 1 and spread:
        yield from _spread(waiting, notes, run, pool)
        return

    for job in waiting:
        _started(run, notify, job.id)
        note = notes.get(job.id, "")
        # Given away at once: its arrays must not stay while the next job runs.
        yield job, run_job(job, run.folder, pool=pool, notify=notify, note=note)


def _spread(
    waiting: list[Job],
    notes: dict[str, str],
    run: Run,
    pool: Any,
) -> Iterator[tuple[Job, Result]]:
    """Whole jobs over the workers, each told as it ends; one that kills its workers fails."""
    left = {job.id: job for job in waiting}
    # A death ends the pool's map; what is left goes into another one.
    while left:
        batch = list(left.values())
        numbers = range(len(batch))
        setup = JobSetup(batch, run.folder, notes)
        try:
            for number, _ in pool.unordered(run_spread_job, setup, numbers):
                job = left.pop(batch[number].id)
                # The worker wrote the result; its arrays are nobody's concern here.
                yield job, run.result(job.id, arrays=False)
        except WorkersDiedError as error:
            job = left.pop(batch[error.item].id)
            text = str(error).replace(f"shard {error.item}", "the job")
            yield job, keep_result(job, run.folder, Result(), error=text, killed=True)
        except RemoteError as error:
            # A worker failed outside of a job, where no result could be written.
            raise Error(f"a worker failed: {error}\n{error.details}") from error


@attrs.frozen(eq=False)
class JobSetup:
    """What a worker needs to run whole jobs."""

    jobs: list[Job]
    folder: Path
    notes: dict[str, str]


def run_spread_job(
    setup: JobSetup,
    number: int,
    worker: int,
) -> str:
    """Run one whole job in a worker; its result is in the folder.

    Args:
        setup: All jobs, and where they go.
        number: Which of them.
        worker: Number of the worker this is.

    Returns:
        How it ended.
    """
    job = setup.jobs[number]
    # The worker before may have been ended because of this job.
    place_of_job = setup.folder / "jobs" / job.id
    why = overdue(job.settings.time_limit, place_of_job)
    if why is not None:
        error, where = why
        failed = keep_result(job, setup.folder, Result(), error=error, details=where)
        return failed.status
    waiting, _ = still_to_do(setup.folder, [job])
    if not waiting:
        return "done"  # before another job killed its workers
    note = setup.notes.get(job.id, "")
    report({"started": job.id})
    result = run_job(job, setup.folder, pool=pool_here(), worker=worker, note=note)
    return result.status
