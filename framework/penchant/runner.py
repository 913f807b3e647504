"""Runs jobs: in order or spread over workers, resumed where they were, none hurt by another; prints nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
from penchant.components import resolve
from penchant.context import Context, place
from penchant.environment import environment, isolated, peak_memory
from penchant.errors import Error
from penchant.execution import RemoteError, WorkersDiedError
from penchant.experiment import Experiment
from penchant.identity import plain
from penchant.jobs import Job, serial_reason
from penchant.plugins import Plugins
from penchant.results import Result, atomic, read_json, read_result, write_result, writing_failed
from penchant.runs import Run, make_folder, with_arrays


def run_experiment(
    experiment: Experiment, plugins: Plugins, folder: Path, *, fresh: bool = False
) -> Run:
    """Run or resume an experiment in a folder; events tell what happens."""
    import filelock

    device = place(experiment.settings.device, 0)
    jobs = experiment.jobs(device.partition(":")[0])
    pool = _pool(experiment, plugins, jobs)
    if fresh:
        _move_aside(folder)
    _check_folder(folder, jobs)
    make_folder(folder)
    lock = filelock.FileLock(folder / ".lock", timeout=0)
    try:
        with lock, contextlib.closing(pool):
            return _run(experiment, plugins, folder, jobs, pool)
    except filelock.Timeout:
        raise Error(
            f"another run is writing to {folder}; wait for it or choose another folder with --out"
        ) from None
    except OSError as error:
        raise writing_failed(folder, error) from error


def _pool(experiment: Experiment, plugins: Plugins, jobs: list[Job]) -> Any:
    """The executor that was asked for; without one, processes where every job can be sent, else serial."""
    settings = experiment.settings
    reason = next((text for text in map(serial_reason, jobs) if text), "")
    workers = settings.workers or os.cpu_count() or 1
    name = settings.executor or ("serial" if reason or workers == 1 else "processes")
    executor = plugins.find("executor", name, "executor").component
    if reason and name != "serial":
        raise Error(f"{reason}, or use the executor serial")
    return resolve(executor.target, f"executor {name!r}")(
        executor(), 1 if name == "serial" else workers, settings.threads
    )


def _move_aside(folder: Path) -> None:
    if folder.exists():
        stamp = time.strftime("%Y%m%d-%H%M%S")
        folder.rename(
            next(
                path
                for n in range(1000)
                if not (
                    path := folder.with_name(f"{folder.name}.{stamp}{f'-{n}' if n else ''}")
                ).exists()
            )
        )


def _check_folder(folder: Path, jobs: list[Job]) -> None:
    """A folder takes an experiment whose jobs include all of its own."""
    begun = {
        ".lock",
        "jobs",
        "experiment.toml",
    }  # what a run that was killed in its first moments leaves
    foreign = (
        folder.is_dir()
        and not (folder / "run.json").is_file()
        and {each.name for each in folder.iterdir()} - begun
    )
    if folder.is_file() or foreign:
        raise Error(f"{folder} exists and is not a run folder; choose another with --out")
    if (folder / "run.json").is_file():
        others = {job["id"] for job in read_json(folder / "run.json")["jobs"]} - {
            job.id for job in jobs
        }
        if others:
            raise Error(
                f"{folder} holds another experiment: {len(others)} of its jobs are not in this one, such as {min(others)}; "
                "choose another folder with --out, or --fresh to move the old one aside"
            )


def _run(experiment: Experiment, plugins: Plugins, folder: Path, jobs: list[Job], pool: Any) -> Run:
    _write_experiment(folder, experiment)
    waiting, notes = _waiting(folder, jobs)
    if experiment.settings.executor is None:
        alone = {job.id: serial_reason(job) for job in waiting}
        notes.update(
            {
                name: f"runs with the executor serial only: {reason}"
                for name, reason in alone.items()
                if reason
            }
        )
    entries = [
        {
            "id": job.id,
            "status": "pending" if job in waiting else "done",
            "labels": job.labels,
            "path": f"jobs/{job.id}",
        }
        for job in jobs
    ]
    record = {
        "title": experiment.settings.title,
        "seeds": list(experiment.settings.seeds),
        "threads": experiment.settings.threads,
    }
    run = Run(folder, {**record, "environment": environment(), "jobs": entries})
    notify = _notifier(plugins)
    run.write()
    notify("penchant_run_started", run=run)
    try:
        for job, result in _results(waiting, notes, run, pool, notify):
            run.mark(job.id, result.status)
            notify("penchant_job_finished", run=run, job=job, result=result)
    finally:
        if not experiment.settings.keep_networks and run.done:
            shutil.rmtree(folder / "networks", ignore_errors=True)
        run.write()
        notify("penchant_run_finished", run=run)
    return run


def _notifier(plugins: Plugins) -> Callable[..., None]:
    """Calls event hooks; a listener that fails is reported once as a Python warning and hurts nothing."""

    def notify(hook: str, **arguments: Any) -> None:
        for problem in plugins.notify(hook, **arguments):
            warnings.warn(problem, stacklevel=2)

    return notify


def _waiting(folder: Path, jobs: list[Job]) -> tuple[list[Job], dict[str, str]]:
    """Jobs still to be computed, and why those that had a result are computed again."""
    waiting, notes = [], {}
    for job in jobs:
        path = folder / "jobs" / job.id / "result.json"
        if path.is_file():
            try:
                record = read_json(path)
            except Error as error:
                notes[job.id] = f"computed again: {error}"
                record = {}
            if (
                record.get("status") == "done"
                and record.get("key") == job.key
                and _whole(path.parent, record)
            ):
                continue
            if record.get("status") == "done":
                changed = (
                    "code or versions changed since"
                    if record.get("key") != job.key
                    else "its arrays are damaged"
                )
                notes[job.id] = f"computed again: {changed}"
        waiting.append(job)
    return waiting, notes


def _whole(folder: Path, record: dict[str, Any]) -> bool:
    """Is the array file there and complete? Its table of contents stands at its end."""
    import zipfile

    if not record.get("arrays"):
        return True
    try:
        with zipfile.ZipFile(folder / "arrays.npz") as file:
            return {f"{name}.npy" for name in record["arrays"]} <= set(file.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def _results(
    waiting: list[Job], notes: dict[str, str], run: Run, pool: Any, notify: Callable[..., None]
) -> Iterator[tuple[Job, Result]]:
    """Whole jobs spread while at least as many wait as there are workers; else shards do."""
    if pool.workers > 1 and len(waiting) >= pool.workers:
        yield from _spread(waiting, notes, run, pool)
        return
    for job in waiting:
        run.mark(job.id, "running")
        yield job, run_job(job, run.folder, pool=pool, notify=notify, note=notes.get(job.id, ""))


def _spread(
    waiting: list[Job], notes: dict[str, str], run: Run, pool: Any
) -> Iterator[tuple[Job, Result]]:
    """Whole jobs over the workers; one that kills its workers fails, and the others go on."""
    left = list(waiting)
    for job in left:
        run.mark(job.id, "running")
    while left:
        batch = list(left)
        try:
            for job, _ in zip(
                batch,
                pool.map(run_spread_job, JobSetup(batch, run.folder, notes), range(len(batch))),
            ):
                left.remove(job)
                yield job, read_result(run.folder / "jobs" / job.id)
        except WorkersDiedError as error:
            job = batch[error.item]
            left.remove(job)
            yield (
                job,
                _keep(
                    job,
                    run.folder,
                    Result(),
                    error=str(error).replace(f"shard {error.item}", "the job"),
                ),
            )


@attrs.frozen(eq=False)
class JobSetup:
    """What a worker needs to run whole jobs."""

    jobs: list[Job]
    folder: Path
    notes: dict[str, str]


def run_spread_job(setup: JobSetup, number: int, worker: int) -> str:
    """Run one whole job in a worker; its result is in the folder."""
    job = setup.jobs[number]
    if not _waiting(setup.folder, [job])[0]:  # done before another job killed its workers
        return "done"
    return run_job(job, setup.folder, worker=worker, note=setup.notes.get(job.id, "")).status


def run_job(
    job: Job,
    folder: Path,
    *,
    pool: Any = None,
    notify: Callable[..., None] | None = None,
    worker: int = 0,
    note: str = "",
) -> Result:
    """Measure one job and keep what came out; a failure becomes a result that says why."""
    started = time.perf_counter()
    found, error, details, context = Result(), None, None, None
    try:
        with isolated(job.settings.threads, place(job.settings.device, worker)):
            context = Context(job, folder, pool=pool, notify=notify, worker=worker)
            found = _measure(job, context)
    except Error as problem:
        error = str(problem)
    except RemoteError as problem:
        error, details = str(problem), problem.details
    except Exception as problem:  # whatever a probe raises, the other jobs go on
        error, details = f"{type(problem).__name__}: {problem}", traceback.format_exc()
    texts = [*([note] if note else []), *(context.warnings if context else ()), *found.warnings]
    conventions = {**(context.conventions if context else {}), **found.conventions}
    found = attrs.evolve(
        Result() if error else found, warnings=tuple(dict.fromkeys(texts)), conventions=conventions
    )
    result = _keep(
        job, folder, found, error=error, details=details, seconds=time.perf_counter() - started
    )
    if not error:
        _draw(job, folder / "jobs" / job.id, result)
        shutil.rmtree(folder / "jobs" / job.id / "shards", ignore_errors=True)
    return result


def _keep(
    job: Job,
    folder: Path,
    found: Result,
    *,
    error: str | None = None,
    details: str | None = None,
    seconds: float = 0.0,
) -> Result:
    """Write a result with everything that says what was measured on what."""
    cost = {"seconds": round(seconds, 3), "peak_memory_bytes": peak_memory()}
    status = {"status": "failed" if error else "done", "id": job.id, "key": job.key}
    record = {**status, **plain_record(job), "error": error, "traceback": details, "cost": cost}
    result = attrs.evolve(found, record=record)
    write_result(folder / "jobs" / job.id, result)
    return result


def plain_record(job: Job) -> dict[str, Any]:
    return {key: plain(value) if key != "about" else value for key, value in job.record.items()}


def _measure(job: Job, context: Context) -> Result:
    if job.architecture is not None:
        context.architecture.check()
    what = f"probe {job.probe.component.name!r}"

    result = resolve(job.probe.component.target, what)(with_arrays(job.probe.component), context)
    if not isinstance(result, Result):
        raise Error(f"{what} must return a penchant.Result, found {type(result).__name__}")
    result.check()
    if context._shards == 1 and (os.cpu_count() or 1) > job.settings.threads:
        context.warn(f"the job has a single shard: --threads {os.cpu_count()} would use more cores")
    return result


def _draw(job: Job, folder: Path, result: Result) -> None:
    """Draw a probe's figures from its stored result; a drawing that fails is a warning, the numbers are safe."""
    function = resolve(job.probe.component.target, "probe")
    plot = getattr(sys.modules.get(function.__module__), "plot", None)
    if plot is None:
        return
    try:
        import matplotlib

        with matplotlib.rc_context({"backend": "agg", "figure.dpi": 100}):
            for name, figure in plot(result).items():
                (folder / "figures").mkdir(exist_ok=True)
                with atomic(folder / "figures" / f"{name}.png") as file:
                    figure.savefig(file, format="png", bbox_inches="tight")
    except Exception as error:
        texts: tuple[str, ...] = (
            *result.warnings,
            f"figures could not be drawn: {type(error).__name__}: {error}",
        )
        write_result(folder, attrs.evolve(result, warnings=texts))


def _write_experiment(folder: Path, experiment: Experiment) -> None:
    import tomli_w

    with atomic(folder / "experiment.toml") as file:
        file.write(tomli_w.dumps(_for_toml(experiment.raw)).encode())


def _for_toml(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _for_toml(part) for key, part in value.items() if part is not None}
    if isinstance(value, (list, tuple)) and all(isinstance(part, dict) for part in value):
        return [_for_toml(part) for part in value]
    return plain(value)
