"""Files of datasets, before the first job: fetched if requested, and reported once if missing.

A job's key names the content of the files it reads. Were they fetched by the job, the key would
name none, and the next run would compute everything once more.
"""

from __future__ import annotations

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
    for choice in [each for probe in experiment.probes for each in probe.axes["dataset"]]:
        # What goes wrong here is reported before the first job.
        if choice is not None and getattr(choice.component, "download", False):
            _problem(choice.component)


def check_files(jobs: Sequence[Job]) -> None:
    """Refuse jobs whose data are not there: once per dataset, not once per job."""
    # One component for all jobs of a dataset.
    datasets = {id(job.dataset.component): job.dataset.component for job in jobs if job.dataset}
    problems = {name: _problem(component) for name, component in datasets.items()}
    lacking = sum(bool(job.dataset and problems[id(job.dataset.component)]) for job in jobs)
    if lacking:
        listed = "\n".join(filter(None, problems.values()))
        raise Error(f"data are missing for {lacking} of {counted(len(jobs), 'job')}\n{listed}")


def _problem(component: Any) -> str:
    """What a dataset that has no files yet says when it is loaded."""
    if type(component).files is Dataset.files or component.files():
        return ""
    try:
        import torch

        load = resolve(type(component).target, f"dataset {component.name!r}")
        load(component, torch.Generator(device="cpu"))
    except Error as error:
        return str(error)
    except Exception:  # whatever else goes wrong, its jobs report it
        return ""
    return ""
