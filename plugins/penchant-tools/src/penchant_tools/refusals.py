"""Why a job cannot begin."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from penchant.components.targets import resolve
from penchant.errors import Error
from penchant.execution.attempts import call_probe, check_fit
from penchant.execution.context import Context
from penchant.execution.environment import isolated, place
from penchant.execution.mapping import Pool
from penchant.experiments.jobs import Job


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
    device = place(job.settings.device)
    component = job.probe.component
    try:
        with isolated(job.settings, device, lambda text: None):
            context = Context(job, folder, pool=pool)
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
