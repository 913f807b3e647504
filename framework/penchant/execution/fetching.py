"""Data that a dataset fetches by itself are fetched before jobs are planned.

A job's key names the content of the files it reads. Were they fetched by the job, the key would
name none, and the next run would compute everything once more.
"""

from __future__ import annotations

import contextlib
from typing import Any

from penchant.components.targets import resolve
from penchant.experiments.experiment import Experiment


def fetch(experiment: Experiment) -> None:
    """Load every dataset once that says `download` and has no files yet."""
    for component in _lacking(experiment):
        import torch

        load = resolve(type(component).target, f"dataset {component.name!r}")
        # What goes wrong here goes wrong again in the jobs, which report it.
        with contextlib.suppress(Exception):
            load(component, torch.Generator(device="cpu"))


def _lacking(experiment: Experiment) -> list[Any]:
    found: dict[int, Any] = {}
    for probe in experiment.probes:
        for choice in probe.axes["dataset"]:
            component: Any = getattr(choice, "component", None)
            if getattr(component, "download", False) and not component.files():
                found[id(component)] = component
    return list(found.values())
