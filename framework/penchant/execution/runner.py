"""Runs jobs: in order or spread over workers, resumed where they were; prints nothing.

Whatever one job, figure or listener does, the others go on. `result.json` is written last and is
the truth; figures come after it, and are drawn again where a run was stopped before them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from penchant.components.output import ONE_OF_MANY
from penchant.components.targets import resolve
from penchant.errors import Error
from penchant.execution.context import Context
from penchant.execution.drawing import draw, draw_missing, is_drawn, keep_warning
from penchant.execution.environment import (
    default_workers,
    environment,
    flags,
    gpu,
    isolated,
    peak_memory,
    place,
)
from penchant.execution.folders import (
    check_folder,
    locked,
    move_aside,
    still_to_do,
    write_experiment,
)
from penchant.execution.pools import RemoteError, WorkersDiedError
from penchant.execution.scheduling import start_pool
from penchant.execution.selection import Part, selected
from penchant.execution.serving import pool_here, report
from penchant.experiments.experiment import Experiment
from penchant.experiments.jobs import Job, serial_reason
from penchant.experiments.quick import CONVENTION
from penchant.plugins.discovery import Plugins
from penchant.results.files import read_json, sweep, writing_failed
from penchant.results.result import Result, write_result
from penchant.results.runs import Run, make_folder, status_of

Notify = Callable[..., None]


class TimeLimitError(BaseException):
    """A job took longer than `time_limit`; no probe can catch it by accident."""


class TerminatedError(KeyboardInterrupt):
    """SIGTERM: the run stops as it does at Ctrl-C, and keeps what is finished."""

    exit_code = 143


def run_experiment(
    experiment: Experiment,
    plugins: Plugins,
    folder: Path,
    *,
    fresh: bool = False,
    only: Sequence[str] = (),
    part: Part | None = None,
) -> Run:
    """Run or resume an experiment in a folder; events tell what happens.

    Args:
        experiment: What to run.
        plugins: Where executors are found, and who listens to events.
        folder: The run folder.
        fresh: Move an old run in this folder aside.
        only: Patterns of the jobs to run; none: all of them.
        part: Which part of these, where several processes share a folder.

    Returns:
        The run.
    """
    # A probe that changes the working directory must not move the folder.
    folder = folder.absolute()
    device = place(experiment.settings.device)
    jobs = experiment.jobs(device.partition(":")[0], gpu(device))
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
            with locked(folder, part), _terminable():
                # Parts share a folder: what one of them finds there another may be writing.
                if part is None:
                    sweep(folder)
                return _Course(experiment, plugins, folder, jobs, chosen).run(pool)
    except OSError as error:
        raise writing_failed(folder, error) from error


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM, which clusters send before they kill, stops a run in good order."""
    # Signals reach the main thread only.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum: int, frame: Any) -> None:
        raise TerminatedError("terminated")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _pool(experiment: Experiment, plugins: Plugins, jobs: list[Job]) -> Any:
    """The executor that was asked for; without one, processes where every job can be sent."""
    settings = experiment.settings
    # One job that cannot be sent keeps the whole run in this process.
    reasons = map(serial_reason, jobs)
    reason = next(filter(None, reasons), "")
    executor: Any = experiment.executor
    if executor is None:
        alone = reason or (settings.workers or default_workers(settings)) == 1
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
    ) -> None:
        self.experiment = experiment
        self.settings = experiment.settings
        self.folder = folder
        self.jobs = jobs
        self.chosen = chosen
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

    def _work(self, run: Run, waiting: list[Job], notes: dict[str, str], pool: Any) -> None:
        """Every job that waits, and figures that are missing."""
        for job, result in _results(waiting, notes, run, pool, self.notify):
            run.mark(job.id, result.status, result.error or "")
            self.notify("penchant_job_finished", run=run, job=job, result=result)
        # Also of jobs that were done before: a run may have been stopped while it drew.
        if self.settings.figures:
            for job in self.chosen:
                draw_missing(run.place(job.id))

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
            record["quick"] = True
        run = Run(self.folder, record, asked=asked)
        run.write()
        return run

    def _end(self, run: Run) -> None:
        """Leave a record that says what is missing, and why."""
        asked = {job.id for job in self.chosen}
        for job in run.jobs:
            # One that was stopped is not running any more; others may have ended elsewhere.
            if job["status"] == "running":
                job["status"] = "pending"
            elif job["id"] not in asked:
                job["status"] = status_of(run.place(job["id"]))
        complete = all(job["status"] == "done" for job in run.jobs)
        if complete and not self.settings.keep_networks:
            shutil.rmtree(self.folder / "networks", ignore_errors=True)
        run.write()
        self.notify("penchant_run_finished", run=run)


def _heard(run: Run, notify: Notify, message: dict[str, Any]) -> None:
    """What a worker tells: that a job began, or how far it is."""
    if "started" in message:
        _started(run, notify, message["started"])
    else:
        notify("penchant_progress", **message)


def _started(run: Run, notify: Notify, job: str) -> None:
    run.mark(job, "running")
    notify("penchant_job_started", run=run, job=job)


def _one_line(error: BaseException) -> str:
    """Why a run stopped."""
    text = str(error) or type(error).__name__
    if isinstance(error, KeyboardInterrupt):
        text = str(error) or "interrupted"
    return text.partition("\n")[0]


def _notifier(plugins: Plugins) -> Notify:
    """Calls event hooks; a listener that fails is reported as a warning and hurts nothing."""

    def notify(hook: str, **arguments: Any) -> None:
        for problem in plugins.notify(hook, **arguments):
            # Not even a user who turns warnings into errors loses a run to a listener.
            with contextlib.suppress(Warning):
                warnings.warn(problem, stacklevel=2)

    return notify


def _results(
    waiting: list[Job], notes: dict[str, str], run: Run, pool: Any, notify: Notify
) -> Iterator[tuple[Job, Result]]:
    """Several jobs are spread over workers, which lend each other shards; one runs here.

    A job that killed its workers before is always given to a worker: it would kill this process.
    """
    dangerous = any(job.record.get("killed_workers") for job in waiting)
    if pool.workers > 1 and (len(waiting) > 1 or dangerous):
        yield from _spread(waiting, notes, run, pool)
        return
    for job in waiting:
        _started(run, notify, job.id)
        note = notes.get(job.id, "")
        yield job, run_job(job, run.folder, pool=pool, notify=notify, note=note)


def _spread(
    waiting: list[Job], notes: dict[str, str], run: Run, pool: Any
) -> Iterator[tuple[Job, Result]]:
    """Whole jobs over the workers, each told as it ends; one that kills its workers fails."""
    left = {job.id: job for job in waiting}
    # A death ends the pool's map; what is left goes into another one.
    while left:
        batch = list(left.values())
        setup = JobSetup(batch, run.folder, notes)
        try:
            for number, _ in pool.unordered(run_spread_job, setup, range(len(batch))):
                job = left.pop(batch[number].id)
                # The worker wrote the result; its arrays are nobody's concern here.
                yield job, run.result(job.id, arrays=False)
        except WorkersDiedError as error:
            job = left.pop(batch[error.item].id)
            text = str(error).replace(f"shard {error.item}", "the job")
            yield job, _keep(job, run.folder, Result(), error=text, killed=True)
        except RemoteError as error:
            # A worker failed outside of a job, where no result could be written.
            raise Error(f"a worker failed: {error}\n{error.details}") from error


@attrs.frozen(eq=False)
class JobSetup:
    """What a worker needs to run whole jobs."""

    jobs: list[Job]
    folder: Path
    notes: dict[str, str]


def run_spread_job(setup: JobSetup, number: int, worker: int) -> str:
    """Run one whole job in a worker; its result is in the folder.

    Args:
        setup: All jobs, and where they go.
        number: Which of them.
        worker: Number of the worker this is.

    Returns:
        How it ended.
    """
    job = setup.jobs[number]
    waiting, _ = still_to_do(setup.folder, [job])
    if not waiting:
        return "done"  # before another job killed its workers
    note = setup.notes.get(job.id, "")
    report({"started": job.id})
    result = run_job(job, setup.folder, pool=pool_here(), worker=worker, note=note)
    return result.status


def run_job(
    job: Job,
    folder: Path,
    *,
    pool: Any = None,
    notify: Notify | None = None,
    worker: int = 0,
    note: str = "",
) -> Result:
    """Measure one job and keep what came out; a failure becomes a result that says why.

    Args:
        job: What to measure.
        folder: The run folder.
        pool: Where its shards run; in this process without one.
        notify: Told how far it is.
        worker: Number of the worker this is.
        note: A warning the result begins with.

    Returns:
        The result, as it is stored.
    """
    started = time.perf_counter()
    attempt = _Attempt(note)
    try:
        attempt.measure(job, folder, pool, notify, worker)
        result = attempt.keep(job, folder, time.perf_counter() - started)
    except (Error, TypeError, ValueError, MemoryError) as problem:
        # What cannot be stored is a failure of this job, not of the run; a full disk is not.
        if isinstance(problem, Error) and isinstance(problem.__cause__, OSError):
            raise
        attempt.failed(problem)
        result = attempt.keep(job, folder, time.perf_counter() - started)
    if result.status == "done":
        _finish(job, folder / "jobs" / job.id, result)
    return result


def _finish(job: Job, place_of_job: Path, result: Result) -> None:
    """What comes after a result is safe: figures, and shards that are not needed any more."""
    target = type(job.probe.component).figures
    wanted = target and job.settings.figures
    if wanted and not is_drawn(place_of_job):
        problem = draw(place_of_job, target, result)
        if problem:
            keep_warning(place_of_job, result, problem)
    shutil.rmtree(place_of_job / "shards", ignore_errors=True)


class _Attempt:
    """One attempt at a job: what was found, or why it failed."""

    def __init__(self, note: str) -> None:
        self.found = Result()
        self.error: str | None = None
        self.details: str | None = None
        self.extra: dict[str, Any] = {}
        self.texts: list[str] = [note] if note else []
        self.conventions: dict[str, str] = {}

    def measure(
        self, job: Job, folder: Path, pool: Any, notify: Notify | None, worker: int
    ) -> None:
        """Run the probe; whatever it raises is this job's failure."""
        texts = self.texts
        context = None
        try:
            device = place(job.settings.device, worker)
            with (
                isolated(job.settings, device, texts.append),
                _time_limit(job.settings.time_limit),
            ):
                context = Context(job, folder, pool=pool, notify=notify, worker=worker)
                if job.settings.quick:
                    context.conventions["form"] = CONVENTION
                self.found = _measure(job, context)
                # Read while the policy is in force: outside it the flags are the caller's.
                self.extra = {**_inputs(context), "policy": flags(job.settings, device)}
        except KeyboardInterrupt:
            raise
        except BaseException as problem:  # not even sys.exit in a probe ends the run
            self.failed(problem)
        # What was warned of before a failure may well explain it.
        if context is not None:
            texts.extend(context.warnings)
            self.conventions = context.conventions

    def failed(self, problem: BaseException) -> None:
        """Note why there is no result."""
        self.found = Result()
        self.error = f"{type(problem).__name__}: {problem}"
        self.details = "".join(traceback.format_exception(problem))
        # What a user can mend needs no traceback; a worker's error brings its own.
        if isinstance(problem, (Error, TimeLimitError)):
            self.error = str(problem)
            # Unless it tells of what code of the user's own has raised.
            cause = problem.__cause__
            if cause is None or isinstance(cause, Error):
                self.details = None
        elif isinstance(problem, RemoteError):
            self.error = str(problem)
            self.details = problem.details

    def keep(self, job: Job, folder: Path, seconds: float) -> Result:
        """Write what came out."""
        texts = [*self.texts, *self.found.warnings]
        once = dict.fromkeys(texts)  # in the order in which they came
        found = attrs.evolve(
            self.found,
            warnings=tuple(once),
            conventions={**self.conventions, **self.found.conventions},
        )
        return _keep(
            job,
            folder,
            found,
            error=self.error,
            details=self.details,
            seconds=seconds,
            extra=self.extra,
        )


def _keep(
    job: Job,
    folder: Path,
    found: Result,
    *,
    error: str | None = None,
    details: str | None = None,
    seconds: float = 0.0,
    extra: dict[str, Any] | None = None,
    killed: bool = False,
) -> Result:
    """Write a result with everything that says what was measured on what."""
    place_of_job = folder / "jobs" / job.id
    record = {
        "status": "failed" if error else "done",
        "id": job.id,
        "key": job.key,
        **job.record,
        **(extra or {}),
        "error": error,
        "traceback": details,
        "cost": {"seconds": round(seconds, 3), "peak_memory_bytes": peak_memory()},
    }
    # The mark is of this attempt: a job that has ended since is not dangerous any more.
    record.pop("killed_workers", None)
    if killed:
        record["killed_workers"] = True
    found = attrs.evolve(found, record=record)
    if not error:
        # Figures of an older result would be taken for this one's.
        shutil.rmtree(place_of_job / "figures", ignore_errors=True)
        result = write_result(place_of_job, found)
        (place_of_job / "failure.json").unlink(missing_ok=True)
        return result
    # A good result of before is kept: this failure stands beside it.
    stored = (place_of_job / "result.json").is_file()
    good = stored and not _has_failed(place_of_job)
    name = "failure.json" if good else "result.json"
    return write_result(place_of_job, found, name)


def _has_failed(place_of_job: Path) -> bool:
    try:
        return read_json(place_of_job / "result.json").get("status") != "done"
    except Error:
        return True


@contextlib.contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    """Raise in the middle of whatever runs when the time is over."""
    # Signals reach the main thread only, and not every system has timers.
    able = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if seconds is None or not able:
        yield
        return

    def over(signum: int, frame: Any) -> None:
        limit = f"time_limit of {seconds:g} seconds"
        raise TimeLimitError(f"the job took longer than its {limit}")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _measure(job: Job, context: Context) -> Result:
    """Call the probe, once what it was given fits."""
    what = f"probe {job.probe.component.name!r}"
    component = job.probe.component
    if job.architecture is not None:
        context.architecture.check(_why_so_many(context))
    _check_needs(type(component).needs, context, what)
    measure = resolve(component.target, what)
    result = measure(context.options, context)
    if not isinstance(result, Result):
        raise Error(f"{what} must return a penchant.Result, found {type(result).__name__}")
    result.check()
    # Advice that only what happened can give: a job with several shards spreads by itself.
    cores = os.cpu_count() or 1
    if context._counts["shards"] == 1 and cores > job.settings.threads:
        context.warn(f"the job has a single shard: --threads {cores} would use more cores")
    for choice in job.choices:
        for name in choice.unidentified:
            context.warn(f"{name} cannot be identified, so the job is computed every time")
    return result


def _why_so_many(context: Context) -> str:
    """Why a network must have so many outputs, and how to have others."""
    if context.has("dataset"):
        return f"its outputs come from the data: {context.data.labels_told}"
    return f"set outputs to what it gives, or {ONE_OF_MANY}"


def _check_needs(needs: tuple[str, ...], context: Context, what: str) -> None:
    """Refuse data and networks that lack what a probe says it needs of them."""
    if "classes" in needs and not context.data.classes:
        raise Error(f"{what} needs labels that are classes, found labels that are numbers")
    if "images" in needs:
        source: Any = context.architecture if context.has("architecture") else context.data
        shape = source.shape
        if len(shape) != 3:
            found = " x ".join(map(str, shape))
            raise Error(f"{what} needs images (channels x height x width), found {found}")
    if "scalar-output" in needs:
        outputs = context.architecture.outputs
        if outputs > 2:
            found = f"found {outputs} outputs"
            cure = f"set outputs = 1, or {ONE_OF_MANY}"
            raise Error(f"{what} needs one output or two logits, {found}; {cure}")


def _inputs(context: Context) -> dict[str, Any]:
    """Shape and outputs of what was measured, as results record them."""
    if context.has("architecture"):
        bound = context.architecture
        return {"shape": list(bound.shape), "outputs": bound.outputs}
    if context.has("dataset"):
        return {"shape": list(context.data.shape), "outputs": context.data.outputs}
    return {}
