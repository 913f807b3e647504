"""Jobs: one cell of an experiment's grid, with its id and key."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

import attrs
from penchant.components import Component, option, resolve
from penchant.errors import Error
from penchant.identity import describe, file_hash, imported_code, short_hash, versions
from penchant.plugins import Offer
from penchant.training import Training


@attrs.frozen
class Settings(Component):
    """What holds for the whole experiment."""

    kind = name = "experiment"

    title: str = option("", "what the run is about")
    seeds: tuple[int, ...] = option((0,), "one job for each", at_least=0)
    device: str = option("auto", "auto, cpu, cuda or cuda:1")
    dtype: str = option("float32", "precision of networks and data", choices=("float32", "float64"))
    shape: tuple[int, ...] = option(
        (1, 32, 32), "input shape where there is no dataset", at_least=1
    )
    outputs: int = option(1, "outputs where there is no dataset", at_least=1)
    threads: int = option(1, "torch threads of every job and shard", at_least=1)
    executor: str | None = option(
        None, "how shards are run; by default processes where there is more than one"
    )
    workers: int | None = option(None, "workers of the executor; by default one a core", at_least=1)
    keep_networks: bool = option(True, "keep checkpoints when the run is done")


@attrs.frozen(eq=False)
class Choice:
    """A component that an experiment chose, with its label and where it came from."""

    component: Any
    offer: Offer
    label: str
    weights: str | None = None

    def describe(self) -> dict[str, Any]:
        """Name, options, plugin and version, as results record them."""
        extra = {"weights": self.weights} if self.weights else {}
        return {**describe(self.component, self.offer), **extra}

    def code(self) -> dict[str, str]:
        """Hashes of the user's own code and files that this choice depends on."""
        weights = {f"{self.label}.weights": file_hash(self.weights)} if self.weights else {}
        return {**imported_code(self.component), **weights}


@attrs.frozen(eq=False)
class ProbeChoice(Choice):
    """A probe with its estimators, its training and the axes it was given."""

    preset: str = "quick"
    estimators: Mapping[str, tuple[Choice, ...]] = attrs.field(factory=dict)
    training: Training | None = None
    datasets: Mapping[str, Offer] = attrs.field(factory=dict)
    axes: Mapping[str, tuple[Choice | None, ...]] = attrs.field(factory=dict)


@attrs.frozen(eq=False)
class Job:
    """One cell of the grid: everything a worker needs to measure it, and nothing of the run around it."""

    id: str
    key: str
    settings: Settings
    probe: ProbeChoice
    architecture: Choice | None
    dataset: Choice | None
    seed: int
    record: dict[str, Any]
    network_key: str = ""

    @property
    def labels(self) -> dict[str, Any]:
        axes = {"architecture": self.architecture, "dataset": self.dataset}
        return {
            "probe": self.probe.label,
            "seed": self.seed,
            **{key: each.label for key, each in axes.items() if each},
        }


def make_job(
    settings: Settings,
    probe: ProbeChoice,
    architecture: Choice | None,
    dataset: Choice | None,
    seed: int,
    device_type: str,
) -> Job:
    """The job with its id (what was asked) and key (what it was asked of)."""
    described = {
        "probe": probe.describe(),
        "architecture": architecture.describe() if architecture else None,
        "dataset": dataset.describe() if dataset else None,
        "estimators": {
            role: _one_or_all([each.describe() for each in chosen])
            for role, chosen in probe.estimators.items()
        },
        "training": dict(probe.training.options()) if probe.training else None,
        "seed": seed,
        "dtype": settings.dtype,
        "device": device_type,
        "threads": settings.threads,
    }
    asked = {
        **_without_versions(described),
        **({} if dataset else {"shape": settings.shape, "outputs": settings.outputs}),
    }
    labels = [probe.label, *(each.label for each in (architecture, dataset) if each), f"s{seed}"]
    chosen = [
        probe,
        *(each for each in (architecture, dataset) if each),
        *itertools.chain(*probe.estimators.values()),
    ]
    code = {name: part for each in chosen for name, part in each.code().items()}
    found = {
        "versions": versions([*(each.offer for each in chosen), *probe.datasets.values()]),
        "code": code,
    }
    record = {
        **described,
        "preset": probe.preset,
        "summary": probe.component.summary(),
        "labels": {},
        **found,
        "about": dict(probe.component.arrays),
        "meanings": dict(probe.component.quantities),
    }
    name = re.sub(
        r"[^\w.-]+", "-", "-".join([*labels, short_hash(asked)])
    )  # a folder on every system
    network_key = _network_key(asked, [each for each in (architecture, dataset) if each])
    job = Job(
        name,
        short_hash([asked, found]),
        settings,
        probe,
        architecture,
        dataset,
        seed,
        record,
        network_key,
    )
    record["labels"] = job.labels
    return job


def _network_key(asked: dict[str, Any], chosen: list[Choice]) -> str:
    """What a trained network depends on besides its training: neither the probe nor its options."""
    parts = {
        key: asked[key] for key in ("architecture", "dataset", "seed", "dtype", "device", "threads")
    }
    code = {name: part for each in chosen for name, part in each.code().items()}
    return short_hash([parts, versions(each.offer for each in chosen), code])


def _one_or_all(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else values


def _without_versions(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_versions(part)
            for key, part in value.items()
            if key not in ("plugin", "version")
        }
    return [_without_versions(part) for part in value] if isinstance(value, list) else value


def serial_reason(job: Job) -> str:
    """Why this job can only run in this process; empty if it can be sent to others."""
    chosen = [
        job.probe,
        job.architecture,
        job.dataset,
        *itertools.chain(*job.probe.estimators.values()),
    ]
    for choice in chosen:
        if choice is None:
            continue
        objects = [
            type(choice.component).target,
            *(value for value in choice.component.options().values() if callable(value)),
        ]
        for value in objects:
            if not isinstance(value, str) and not sendable(value):
                name = getattr(value, "__qualname__", type(value).__name__)
                return f"{choice.component.kind} {choice.label!r} is made by {name}, which other processes cannot import; put it in a module"
        if type(choice.component).__module__ == "__main__":
            return f"{choice.component.kind} {choice.label!r} is declared in a script, which other processes cannot import; put it in a module"
    return ""


def sendable(function: Any) -> bool:
    """Can another process import this by its name?"""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if module in (None, "__main__") or "<" in name:
        return not name and type(function).__module__ not in ("__main__",)
    try:
        return resolve(f"{module}:{name}", name) is function
    except Error:
        return False
