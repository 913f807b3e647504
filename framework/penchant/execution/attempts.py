"""One attempt at a job: it is measured, and what came out is kept; a failure says why.

`result.json` is written last and is the truth; figures come after it.
"""

from __future__ import annotations

import os
import shutil
import time
import traceback
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import attrs
from penchant.components.component import Probe
from penchant.components.output import ONE_OF_MANY
from penchant.components.taking import how_taken, takes_sequences, takes_tokens
from penchant.components.targets import resolve
from penchant.errors import Error
from penchant.execution.context import Context
from penchant.execution.declared import mistakes
from penchant.execution.environment import flags, isolated, peak_memory, place
from penchant.execution.limits import TimeLimitError, time_limit
from penchant.execution.locations import authors_line, described
from penchant.execution.mapping import Pool
from penchant.execution.maps import RemoteError
from penchant.execution.networks import FROM_EMBEDDING
from penchant.experiments.jobs import Job
from penchant.plugins.discovery import Plugins, load_only
from penchant.results.job_folder import JobFolder
from penchant.results.result import Result, read_result, write_result
from penchant.results.steps import stacked

Measure = Callable[[Any, Context], Result]

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
    attempt = _Attempt(job, folder, note)
    try:
        attempt.measure(pool, worker)
        result = attempt.keep()
    except (Error, TypeError, ValueError, MemoryError) as problem:
        # What cannot be stored is a failure of this job, not of the run; a full disk is not.
        if isinstance(problem, Error) and isinstance(problem.__cause__, OSError):
            raise
        attempt.failed(problem)
        result = attempt.keep()
    if result.status == "done":
        result = _finish(job, JobFolder.of(folder, job.id), result, load_only(listeners))
    return result


def _finish(job: Job, job_folder: JobFolder, result: Result, listeners: Plugins) -> Result:
    """Tell listeners that a result is safe, and delete its shards."""
    listeners.announce("penchant_result_stored", job=job, folder=job_folder.path, result=result)
    # A listener may have added a warning, such as a figure that could not be drawn.
    stored = read_result(job_folder.path, arrays=False)
    shutil.rmtree(job_folder.shards, ignore_errors=True)
    return attrs.evolve(result, warnings=stored.warnings)


class _Attempt:
    """One attempt at a job: what was found, or why it failed."""

    def __init__(self, job: Job, folder: Path, note: str) -> None:
        self.job = job
        self.folder = folder
        self.began = time.perf_counter()
        self.found = Result()
        self.error: str | None = None
        self.details: str | None = None
        self.extra: dict[str, Any] = {}
        # What the run says of the job comes before what the job says.
        self.texts = [note] if note else []
        self.conventions: dict[str, str] = {}
        self.device = "cpu"

    def measure(self, pool: Pool | None, worker: int) -> None:
        """Run the probe; whatever it raises is this job's failure."""
        job, settings = self.job, self.job.settings
        context = None
        try:
            self.device = place(settings.device, worker)
            with (
                isolated(settings, self.device, self.texts.append),
                time_limit(settings.time_limit, JobFolder.of(self.folder, job.id).path),
            ):
                context = Context(job, self.folder, pool=pool, worker=worker)
                if settings.quick:
                    context.conventions["form"] = REDUCED
                self.found = _measure(job, context)
                # Read while the policy is in force: outside it the flags are the caller's.
                self.extra = {**_inputs(context), "policy": flags(settings, self.device)}
        except KeyboardInterrupt:
            raise
        except BaseException as problem:  # not even sys.exit in a probe ends the run
            self.failed(problem, authors_line(problem, type(job.probe.component)))
        # What was warned of before a failure may well explain it.
        if context is not None:
            self.texts.extend(context.warnings)
            self.conventions = context.conventions

    def failed(self, problem: BaseException, line: str = "") -> None:
        """Note why there is no result, and the line of the probe's code that it came from."""
        self.found = Result()
        self.error = described(problem, line)
        self.details = "".join(traceback.format_exception(problem))
        # What a user can mend needs no traceback; a worker's error brings its own.
        if isinstance(problem, (Error, TimeLimitError)):
            self.error = str(problem)
            # Unless it tells of what code of the user's own has raised.
            if problem.__cause__ is None or isinstance(problem.__cause__, Error):
                self.details = None
        elif isinstance(problem, RemoteError):
            self.error = str(problem)
            self.details = problem.details

    def keep(self) -> Result:
        """Write what came out."""
        once = dict.fromkeys([*self.texts, *self.found.warnings])  # in the order they came
        conventions = {**self.conventions, **self.found.conventions}
        return keep_result(
            self.job,
            self.folder,
            attrs.evolve(self.found, warnings=tuple(once), conventions=conventions),
            error=self.error,
            details=self.details,
            seconds=time.perf_counter() - self.began,
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
    result = call_probe(job, measure, context)
    if not isinstance(result, Result):
        raise Error(f"{what} must return a penchant.Result, found {type(result).__name__}")
    result.check()
    for text in mistakes(job.probe, result):
        context.warn(text)
    _advise(job, context, time.perf_counter() - started)
    return result


def call_probe(job: Job, measure: Measure, context: Context) -> Result:
    """What the probe returns; a trajectory that it does not follow is given state by state."""
    choice = job.architecture
    kind = choice.network_kind if choice is not None else "fresh"
    cls = type(job.probe.component)
    if kind == "trajectory" and how_taken(cls, kind) == "by state":
        return _by_state(measure, context)
    return measure(context.options, context)


def _by_state(measure: Measure, context: Context) -> Result:
    """Every state of a trajectory, each as the trained network of the context it is given."""
    tell = context.progress(len(context.steps), "states")
    results: list[Result] = []
    for narrower in context._states():
        result = measure(narrower.options, narrower)
        if not isinstance(result, Result):
            return result
        results.append(result)
        tell(len(results))
    return stacked(results, context.steps)


def check_fit(job: Job, context: Context) -> None:
    """Refuse a network or data that the probe cannot be given."""
    cls = type(job.probe.component)
    what = f"probe {cls.name!r}"
    if context.has("dataset"):
        _check_data(cls, context, what)
    if job.architecture is not None:
        _check_architecture(context)
    _check_needs(cls, context, what)


def _check_architecture(context: Context) -> None:
    """One forward pass, on valid tokens where the data have any."""
    example = positions = None
    if context.has("dataset"):
        data = context.data
        positions = data.positions
        example = data.train.inputs[:1] if data.has_tokens else None
    context.architecture.check(_why_so_many(context), example=example, positions=positions)


def _advise(job: Job, context: Context, seconds: float) -> None:
    """Advice that only what happened can give.

    A job with several shards spreads by itself, and one that is soon done needs no advice.
    """
    cores = os.cpu_count() or 1
    single = context._counts["shards"] == 1
    if single and cores > job.settings.threads and seconds > WORTH_ADVICE:
        context.warn(f"the job has a single shard: --threads {cores} would use more cores")
    for choice in job.choices:
        for name in choice.unidentified:
            context.warn(f"{name} cannot be identified, so the job is computed every time")


def _why_so_many(context: Context) -> str:
    """Why a network must have so many outputs, and how to have others."""
    if context.has("dataset"):
        return f"its outputs come from the data: {context.data.labels_told}"
    return f"set outputs to what it gives, or {ONE_OF_MANY}"


def _check_needs(cls: type[Probe], context: Context, what: str) -> None:
    """Refuse data and networks that lack what a probe says it needs of them."""
    needs = cls.needs
    if "classes" in needs and not context.data.classes:
        raise Error(f"{what} needs labels that are classes, found labels that are numbers")
    if "images" in needs and len(_source(context).shape) != 3:
        found = " x ".join(map(str, _source(context).shape))
        raise Error(f"{what} needs images (channels x height x width), found {found}")
    # Of several logits of a trained network, that of each sample's class is measured.
    by_class = context.network_kind != "fresh" and context.has("dataset")
    if "scalar-output" in needs and not by_class and context.architecture.outputs > 2:
        found = f"found {context.architecture.outputs} outputs"
        hint = f"set outputs = 1, or {ONE_OF_MANY}"
        raise Error(f"{what} needs one output or two logits, {found}; {hint}")


def _check_data(cls: type[Probe], context: Context, what: str) -> None:
    """Refuse tokens and sequences for probes that cannot take them."""
    data = context.data
    if data.has_tokens and not takes_tokens(cls):
        hint = f"tokens cannot be moved a little; {FROM_EMBEDDING}"
        raise Error(f"{what} needs continuous-inputs, found whole numbers: {hint}")
    if data.positions is not None and not takes_sequences(cls):
        found = f"found {data.positions} labels per sample, one for each position of a sequence"
        hint = "give one label per sample, such as that of the last position"
        raise Error(f"{what} needs one label per sample, {found}; {hint}")


def _inputs(context: Context) -> dict[str, Any]:
    """Shape and outputs of what was measured, as results record them."""
    if not context.has("architecture") and not context.has("dataset"):
        return {}
    source = _source(context)
    return {"shape": list(source.shape), "outputs": source.outputs}


def _source(context: Context) -> Any:
    """What says how large inputs are: the network, else the data."""
    return context.architecture if context.has("architecture") else context.data
