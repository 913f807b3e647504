"""Why a job cannot begin."""

from __future__ import annotations

import time
import warnings
from contextlib import AbstractContextManager
from pathlib import Path

from penchant.components.targets import resolve
from penchant.errors import Error
from penchant.execution.attempts import call_probe
from penchant.execution.context import Context
from penchant.execution.devices import resolve_device
from penchant.execution.environment import isolated
from penchant.execution.failures import TimeLimitError
from penchant.execution.fitting import check_fit
from penchant.execution.limits import time_limit
from penchant.execution.mapping import Pool
from penchant.experiments.jobs import Job

from penchant_tools.timing import JobTimer


def refusal(
    job: Job,
    folder: Path,
    *,
    pool: Pool | None = None,
    limit: AbstractContextManager[None] | None = None,
) -> str:
    """Why a job cannot begin; empty where it can.

    Args:
        job: What would be measured.
        folder: Where it may write.
        pool: Where its shards run.
        limit: Ends the probe after a while; without one the probe is not called.

    Returns:
        What the job would fail with.
    """
    device = resolve_device(job.settings.device)
    component = job.probe.component
    try:
        with isolated(job.settings, device, lambda text: None):
            context = Context(job, folder, device=device, pool=pool)
            check_fit(job, context)
            measure = resolve(component.target, f"probe {component.name!r}")
            if limit is not None:
                with limit:
                    call_probe(job, measure, context)
    except Error as error:
        return str(error)
    except Exception as error:  # whatever a probe raises, its job fails
        return f"{type(error).__name__}: {error}"
    return ""


def tried(job: Job, folder: Path, seconds: float) -> str:
    """Why a job is refused: by the kernel, or by the probe within some seconds.

    Args:
        job: What would be measured.
        folder: Where it may write.
        seconds: How long the probe may run.

    Returns:
        What the job would fail with; empty where it began well.
    """
    pool = JobTimer(time.perf_counter, lambda estimate: None)
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reason = refusal(job, folder, pool=pool, limit=time_limit(seconds, folder))
    except TimeLimitError:
        return ""
    # The limit may have been reported in other words, and answers that stand for others may fail
    # where those of a run do not.
    stopped = time.perf_counter() - began >= seconds
    return "" if stopped or pool.skipped else reason
