"""One attempt at a job: it is measured, and what came out is kept; a failure says why.

`result.json` is written last and is the truth; figures come after it.
"""

from __future__ import annotations

import os
import shutil
import time
import traceback
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import attrs
from penchant.components.output import ONE_OF_MANY
from penchant.components.targets import resolve
from penchant.errors import Error
from penchant.execution.context import Context
from penchant.execution.environment import flags, isolated, peak_memory, place
from penchant.execution.limits import TimeLimitError, time_limit
from penchant.execution.mapping import Pool
from penchant.execution.maps import RemoteError
from penchant.experiments.jobs import Job
from penchant.plugins.discovery import Plugins, load_only
from penchant.results.job_folder import JobFolder
from penchant.results.result import Result, read_result, write_result

REDUCED = "reduced by --quick: not the numbers that the experiment asks for"
WORTH_ADVICE = 60.0  # seconds of a job that would end sooner with more threads


def run_job(
    job: Job,
    folder: Path,
    *,
    pool: Pool | None = None,
    worker: int = 0,
    note: str = "",
    listeners: tuple[EntryPoint, ...] = (),
) -> Result:
    """Measure one job and keep what came out; a failure becomes a result that says why.

    Args:
        job: What to measure.
        folder: The run folder.
        pool: Where its shards run; in this process without one.
        worker: Number of the worker this is.
        note: A warning the result begins with.
        listeners: Plugins that are told of the result.

    Returns:
        The result, as it is stored.
    """
    started = time.perf_counter()
    attempt = _Attempt(note)
    try:
        attempt.measure(job, folder, pool, worker)
        result = attempt.keep(job, folder, time.perf_counter() - started)
    except (Error, TypeError, ValueError, MemoryError) as problem:
        # What cannot be stored is a failure of this job, not of the run; a full disk is not.
        if isinstance(problem, Error) and isinstance(problem.__cause__, OSError):
            raise
        attempt.failed(problem)
        result = attempt.keep(job, folder, time.perf_counter() - started)
    if result.status == "done":
        result = _finish(job, JobFolder.of(folder, job.id), result, load_only(listeners))
    return result


def _finish(job: Job, job_folder: JobFolder, result: Result, listeners: Plugins) -> Result:
    """Tell listeners that a result is safe, and delete its shards.

    A listener may add a warning to the stored result, such as a figure that could not be drawn.
    """
    listeners.announce("penchant_result_stored", job=job, folder=job_folder.path, result=result)
    stored = read_result(job_folder.path, arrays=False)
    result = attrs.evolve(result, warnings=stored.warnings)
    shutil.rmtree(job_folder.shards, ignore_errors=True)
    return result


class _Attempt:
    """One attempt at a job: what was found, or why it failed."""

    def __init__(self, note: str) -> None:
        self.found = Result()
        self.error: str | None = None
        self.details: str | None = None
        self.extra: dict[str, Any] = {}
        self.texts: list[str] = []
        self.conventions: dict[str, str] = {}
        self.device = "cpu"
        # What the run says of the job comes before what the job says.
        if note:
            self.texts.append(note)

    def measure(self, job: Job, folder: Path, pool: Pool | None, worker: int) -> None:
        """Run the probe; whatever it raises is this job's failure."""
        texts = self.texts
        context = None
        try:
            device = place(job.settings.device, worker)
            self.device = device
            with (
                isolated(job.settings, device, texts.append),
                time_limit(job.settings.time_limit, JobFolder.of(folder, job.id).path),
            ):
                context = Context(job, folder, pool=pool, worker=worker)
                if job.settings.quick:
                    context.conventions["form"] = REDUCED
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
        return keep_result(
            job,
            folder,
            found,
            error=self.error,
            details=self.details,
            seconds=seconds,
            extra=self.extra,
            device=self.device,
        )


def keep_result(
    job: Job,
    folder: Path,
    found: Result,
    *,
    error: str | None = None,
    details: str | None = None,
    seconds: float = 0.0,
    extra: dict[str, Any] | None = None,
    device: str = "cpu",
    killed: bool = False,
) -> Result:
    """Write a result with everything that says what was measured on what.

    Args:
        job: What was to be measured.
        folder: The run folder.
        found: What the probe gave.
        error: Why it failed, if it did.
        details: The traceback of that.
        seconds: How long it took.
        extra: What else the record holds.
        device: Where it ran.
        killed: Did it end its worker?

    Returns:
        The result as it was written.
    """
    job_folder = JobFolder.of(folder, job.id)
    record = {
        "status": "failed" if error else "done",
        "id": job.id,
        "key": job.key,
        **job.record,
        **(extra or {}),
        "error": error,
        "traceback": details,
        "cost": {"seconds": round(seconds, 3), "peak_memory_bytes": peak_memory(device)},
    }
    if killed:
        record["killed_workers"] = True
    found = attrs.evolve(found, record=record)
    if not error:
        # Figures of an older result would be taken for this one's.
        shutil.rmtree(job_folder.path / "figures", ignore_errors=True)
        result = write_result(job_folder.path, found)
        job_folder.failure.unlink(missing_ok=True)
        return result
    # A good result of before is kept: this failure stands beside it.
    path = job_folder.failure if job_folder.has_good_result() else job_folder.result
    return write_result(job_folder.path, found, path.name)


def _measure(job: Job, context: Context) -> Result:
    """Call the probe, once what it was given fits."""
    check_fit(job, context)
    component = job.probe.component
    what = f"probe {component.name!r}"
    measure = resolve(component.target, what)
    started = time.perf_counter()
    result = measure(context.options, context)
    if not isinstance(result, Result):
        found = type(result).__name__
        raise Error(f"{what} must return a penchant.Result, found {found}")
    result.check()
    seconds = time.perf_counter() - started
    _advise(job, context, seconds)
    return result


def check_fit(job: Job, context: Context) -> None:
    """Refuse a network or data that the probe cannot be given."""
    component = job.probe.component
    if job.architecture is not None:
        context.architecture.check(_why_so_many(context))
    _check_needs(type(component).needs, context, f"probe {component.name!r}")


def _advise(job: Job, context: Context, seconds: float) -> None:
    """Advice that only what happened can give.

    A job with several shards spreads by itself, and one that is soon done needs no advice.
    """
    cores = os.cpu_count() or 1
    single = context._counts["shards"] == 1
    idle = cores > job.settings.threads
    if single and idle and seconds > WORTH_ADVICE:
        context.warn(f"the job has a single shard: --threads {cores} would use more cores")
    for choice in job.choices:
        for name in choice.unidentified:
            context.warn(f"{name} cannot be identified, so the job is computed every time")


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
        source = _source(context)
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
    if not context.has("architecture") and not context.has("dataset"):
        return {}
    source = _source(context)
    return {"shape": list(source.shape), "outputs": source.outputs}


def _source(context: Context) -> Any:
    """What says how large inputs are: the network, else the data."""
    if context.has("architecture"):
        return context.architecture
    return context.data
