"""One attempt at a job: measure it and store the result; a failure says why.

`result.json` is written last and is the truth; figures come after it.
"""

import contextlib
import shutil
import sys
import time
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import attrs
from penchant.components.taking import how_taken
from penchant.components.targets import resolve
from penchant.errors import Error
from penchant.execution.failures import Failure, TimeLimitError, failure_of
from penchant.execution.job.context import Context
from penchant.execution.job.diagnosis import explained
from penchant.execution.job.environment import isolated, peak_memory, recorded_policy
from penchant.execution.job.fitting import check_fit, mistakes, naming_unselected
from penchant.execution.job.own_networks import OwnNetworks
from penchant.execution.queue.limits import time_limit
from penchant.experiments.jobs import Job
from penchant.plugins.discovery import load_only
from penchant.results.files import write_json
from penchant.results.job_folder import JobFolder
from penchant.results.records import ResultRecord
from penchant.results.result import Result, to_json
from penchant.results.steps import stacked

Measure = Callable[[Any, Context], Result]

KILLED: ResultRecord = {"killed_workers": True}
REDUCED = "reduced by --quick: not the numbers that the experiment asks for"


def run_job(context: Context, *, note: str = "", listeners: tuple[EntryPoint, ...] = ()) -> Result:
    """Measure the job of a context and store the result; a failure becomes one that says why.

    The result begins with a note, if there is one. Listeners are plugins that get it.
    """
    began = time.perf_counter()
    job, folder = context.runtime.job, context.runtime.folder
    stored = JobFolder.of(folder, job.id)
    if note:
        context.warn(note)
    if job.settings.quick:
        changed = f": {job.probe.reduced}" if job.probe.reduced else ""
        context.conventions["form"] = REDUCED + changed
    result, failure, extra = _measured(context, stored.path)
    seconds = time.perf_counter() - began
    memory = peak_memory(context.device)
    extra["cost"] = {"seconds": round(seconds, 3), "peak_memory_bytes": memory}
    # What a job says beside its numbers is stored also where it fails: it may explain the failure.
    notes = Result(warnings=tuple(context.warnings), conventions=context.conventions)
    try:
        result = attrs.evolve(
            result,
            warnings=tuple(dict.fromkeys([*notes.warnings, *result.warnings])),  # each once
            conventions={**notes.conventions, **result.conventions},
        )
        result = store_result(job, folder, result, failure=failure, extra=extra)
    except (Error, TypeError, ValueError, MemoryError) as problem:
        # A result that cannot be stored is a failure of this job, not of the run; a full disk is.
        if isinstance(problem, Error) and isinstance(problem.__cause__, OSError):
            raise
        failure = failure_of(problem, type(job.probe.component))
        return store_result(job, folder, notes, failure=failure, extra=extra)
    if failure is not None:
        return result
    # Figures have what is left of the time: the plugins themselves are not interrupted.
    plugins = load_only(listeners)
    limited = time_limit(job.settings.time_limit, stored.path, began)
    texts: list[str] = []
    with contextlib.suppress(TimeLimitError), limited:
        # What listeners warn of, such as a figure that could not be drawn.
        texts = plugins.announce(
            "penchant_result_stored", job=job, folder=stored.path, result=result
        )
    shutil.rmtree(stored.shards, ignore_errors=True)
    return stored.add_warnings(result, texts)


def _measured(context: Context, folder: Path) -> tuple[Result, Failure | None, ResultRecord]:
    """The result of the probe, or why it failed; and what else the record holds."""
    job, device = context.runtime.job, context.device
    settings = job.settings
    try:
        with (
            naming_unselected(job.probe),
            # Standard output is for results, or for JSON lines.
            contextlib.redirect_stdout(sys.stderr),
            isolated(settings, device, context.warn),
            time_limit(settings.time_limit, folder),
        ):
            result = _measure(job, context)
            # Read while the policy is in force: outside it the flags are the caller's.
            policy: ResultRecord = {"policy": recorded_policy(device)}
            return result, None, {**_inputs(context), **_accuracy(job, context), **policy}
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # not even sys.exit in a probe ends the run
        failure = failure_of(problem, type(job.probe.component))
        return Result(), explained(failure, problem, job, context), {}


def store_result(
    job: Job,
    folder: Path,
    result: Result,
    *,
    failure: Failure | None = None,
    extra: ResultRecord | None = None,
) -> Result:
    """Write a result with everything that says what was measured on what.

    Args:
        job: What was to be measured.
        folder: The run folder.
        result: What the probe returned.
        failure: Why it failed, if it did.
        extra: What else the record holds.

    Returns:
        The result as it was written.
    """
    job_folder = JobFolder.of(folder, job.id)
    record: ResultRecord = {
        "status": "failed" if failure else "done",
        "id": job.id,
        "key": job.key,
        **job.record,
        "cost": {"seconds": 0.0, "peak_memory_bytes": peak_memory()},
        **(extra or {}),
        "error": failure.text if failure else None,
        "traceback": failure.details if failure else None,
    }
    result = attrs.evolve(result, record=record)
    if failure:
        # An older good result stays: this failure stands beside it.
        return job_folder.write(result, beside=job_folder.has_good_result())
    # Figures of an older result would be taken for this one's.
    shutil.rmtree(job_folder.path / "figures", ignore_errors=True)
    written = job_folder.write(result)
    job_folder.failure.unlink(missing_ok=True)
    return written


def add_warning(job_folder: JobFolder, text: str) -> None:
    """Add a warning to a stored result; its arrays stay as they were written."""
    result = job_folder.read(arrays=False)
    warned = attrs.evolve(result, warnings=(*result.warnings, text))
    write_json(job_folder.result, to_json(warned))


def _measure(job: Job, context: Context) -> Result:
    """Call the probe, once what it was given fits."""
    check_fit(job, context)
    component = job.probe.component
    what = f"probe {component.name!r}"
    measure = resolve(component.target, what)
    result = call_probe(job, measure, context)
    if not isinstance(result, Result):
        raise Error(f"{what} must return a penchant.Result, found {type(result).__name__}")
    result.check()
    for text in mistakes(job.probe, result):
        context.warn(text)
    for bound in job.choices:
        for name in bound.unidentified:
            context.warn(f"{name} cannot be identified, so the job is computed every time")
    return result


def call_probe(job: Job, measure: Measure, context: Context) -> Result:
    """What the probe returns; a trajectory that it does not follow is given state by state."""
    kind = job.architecture.network_kind if job.architecture else "fresh"
    if kind == "trajectory" and how_taken(type(job.probe.component), kind) == "by state":
        return _by_state(measure, context)
    return measure(context.options, context)


def _by_state(measure: Measure, context: Context) -> Result:
    """Every state of a trajectory, each as the trained network of the context it is given."""
    tell = context.progress(len(context.steps), "states")
    results: list[Result] = []
    for state in range(len(context.steps)):
        narrower = context.of(context.runtime.in_scope(state=state))
        result = measure(narrower.options, narrower)
        if not isinstance(result, Result):
            return result
        results.append(result)
        tell(len(results))
    return stacked(results, context.steps)


def _inputs(context: Context) -> ResultRecord:
    """Shape and outputs of what was measured, as results record them."""
    if not context.has("architecture") and not context.has("dataset"):
        return {}
    return {"shape": list(context.measured.shape), "outputs": context.measured.outputs}


def _accuracy(job: Job, context: Context) -> ResultRecord:
    """How often the user's own network is right on its training samples; warns where it is not."""
    own = job.architecture
    own_networks = OwnNetworks(context.runtime)
    if own is None or own_networks.kind == "fresh" or not context.has("dataset"):
        return {}
    # One output of several tells no class.
    if not context.data.classes or getattr(own.component, "unit", None) is not None:
        return {}
    from penchant.execution.job.chance import accuracy_of

    accuracy = accuracy_of(own_networks.last(context.network), context.data.train)
    if accuracy is None:
        return {}
    if accuracy.warning:
        context.warn(accuracy.warning)
    value, samples, chance, _ = accuracy
    return {"accuracy": {"value": value, "samples": samples, "chance": chance}}
