"""Files of datasets, before the first job: fetched where that is asked for, and complained of once.

A job's key names the content of the files it reads. Were they fetched by the job, the key would
name none, and the next run would compute everything once more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from penchant.components.component import Dataset
from penchant.components.targets import resolve
from penchant.errors import Error
from penchant.experiments.experiment import Experiment
from penchant.experiments.jobs import Job
from penchant_numerics.rounding import counted


def fetch(experiment: Experiment) -> None:
    """Load every dataset once that says `download` and has no files yet."""
    for component in _lacking(experiment):
        # What goes wrong here is reported before the first job.
        with contextlib.suppress(Exception):
            _load(component)


def check_files(jobs: Sequence[Job]) -> None:
    """Refuse jobs whose data are not there: once per dataset, not once per job.

    Args:
        jobs: The jobs that are about to run.

    Raises:
        Error: What each dataset says of its missing files.
    """
    problems: dict[int, str] = {}
    lacking = 0
    for job in jobs:
        component: Any = job.dataset.component if job.dataset is not None else None
        if component is None or type(component).files is Dataset.files or component.files():
            continue
        # One component for all jobs of a dataset.
        if id(component) not in problems:
            problems[id(component)] = _problem(component)
        lacking += bool(problems[id(component)])
    if lacking:
        listed = "\n".join(filter(None, problems.values()))
        raise Error(f"data are missing for {lacking} of {counted(len(jobs), 'job')}\n{listed}")


def _problem(component: Any) -> str:
    """What a dataset says when it is loaded; empty where it does without files."""
    try:
        _load(component)
    except Error as error:
        return str(error)
    except Exception:  # whatever else goes wrong, its jobs report it
        return ""
    return ""


def _load(component: Any) -> Any:
    import torch

    load = resolve(type(component).target, f"dataset {component.name!r}")
    return load(component, torch.Generator(device="cpu"))


def _lacking(experiment: Experiment) -> list[Any]:
    found: dict[int, Any] = {}
    for probe in experiment.probes:
        for choice in probe.axes["dataset"]:
            component: Any = getattr(choice, "component", None)
            if getattr(component, "download", False) and not component.files():
                found[id(component)] = component
    return list(found.values())
