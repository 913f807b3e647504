"""Jobs: one cell of an experiment's grid, with its id and key."""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from penchant.components.names import filled
from penchant.components.targets import resolve, sendable
from penchant.components.training import Training
from penchant.errors import Error
from penchant.experiments.arrays import read_array
from penchant.experiments.checksums import file_hash
from penchant.experiments.identity import (
    UnidentifiableError,
    content_hash,
    long_hash,
    plain,
    short_hash,
)
from penchant.experiments.settings import Settings
from penchant.experiments.sources import versions
from penchant.experiments.weights import Weights
from penchant.plugins.discovery import OWN, Registration
from penchant.results.steps import about_steps

LONGEST_NAME = 200  # bytes of a folder's name: every file system takes it, with room for endings
_LABELS = ("probe", "architecture", "dataset", "seed")
_OF_A_NETWORK = ("architecture", "dataset", "seed", "dtype", "device", "threads", "precision")


@attrs.frozen(eq=False)
class BoundComponent:
    """A component with its options, as an experiment names it: label, plugin, weights."""

    component: Any
    registration: Registration
    label: str
    weights: Weights | None = None

    @functools.cached_property
    def described(self) -> dict[str, Any]:
        """Name, options, plugin and version, as results record them."""
        record = {
            "name": self.component.name,
            "options": plain(self.component.options()),
            "plugin": self.registration.distribution,
            "version": self.registration.version,
        }
        if self.weights:
            record["weights"] = plain(self.weights.given)
            if not self.weights.strict:
                record["strict"] = False
        return record

    @functools.cached_property
    def content(self) -> dict[str, str]:
        """Hashes of the user's own code, data and files; unique where one cannot be identified."""
        hashes: dict[str, str] = {}
        component = self.component
        for field in attrs.fields(type(component)):
            value = getattr(component, field.name)
            key = f"{component.name}.{field.name}"
            if field.metadata["target"]:
                hashes[key] = _object_hash(value, field.name)
            elif field.metadata["array"] and value is not None:
                array = read_array(value, key) if isinstance(value, str) else value
                hashes[key] = content_hash(array)[:32]
        if self.weights:
            paths = self.weights.content
            key = f"{self.label}.weights"
            for path in paths:
                hashes[key if len(paths) == 1 else f"{key} {path}"] = file_hash(Path(path))
        if hasattr(component, "files"):
            for path in component.files():
                hashes[f"file {Path(path).name}"] = file_hash(Path(path))
        # Code of the user's own; a plugin's code has a version.
        target = type(component).target
        if self.registration.distribution == OWN or not isinstance(target, str):
            hashes[f"{component.name}.target"] = _object_hash(target, component.name)
        return hashes

    @property
    def unidentified(self) -> list[str]:
        """Options whose value cannot be identified."""
        return [key for key, text in self.content.items() if isinstance(text, _Unidentified)]

    @property
    def network_kind(self) -> str:
        """The kind of its networks: "fresh", one "trained" network, or a "trajectory"."""
        if self.weights is not None:
            return "trajectory" if self.weights.is_trajectory else "trained"
        source = getattr(self.component, "factory", None)
        # A module class has the method as well, but makes a fresh network at every call.
        is_module = hasattr(source, "state_dict") and not isinstance(source, type)
        return "trained" if is_module else "fresh"


class _Unidentified(str):
    """A unique hash, of an object that cannot be identified."""


def _object_hash(value: object, name: str) -> str:
    source = resolve(value, name) if isinstance(value, str) else value
    try:
        return content_hash(source)[:32]
    except UnidentifiableError as error:
        # Never the same twice: the job is computed again.
        return _Unidentified(f"unknown {error} {secrets.token_hex(8)}")


@attrs.frozen(eq=False)
class BoundProbe(BoundComponent):
    """A probe with its estimators, its training and the axes it was given.

    With `trains_further`, the probe's own entry has a training: then a network of the user's is
    trained further instead of being measured as it is.
    """

    preset: str = "quick"
    estimators: Mapping[str, tuple[BoundComponent, ...]] = attrs.field(factory=dict)
    training: Training | None = None
    trains_further: bool = False
    used: Mapping[tuple[str, str], Registration] = attrs.field(factory=dict)
    axes: Mapping[str, tuple[BoundComponent | None, ...]] = attrs.field(factory=dict)

    @property
    def estimator_labels(self) -> dict[str, list[str]]:
        """Labels of the estimators of every role."""
        return {role: [each.label for each in bound] for role, bound in self.estimators.items()}


@attrs.frozen(eq=False)
class Job:
    """One cell of the grid, with everything that a worker needs to measure it."""

    id: str
    key: str
    settings: Settings
    probe: BoundProbe
    architecture: BoundComponent | None
    dataset: BoundComponent | None
    seed: int
    record: dict[str, Any]
    network_key: str = ""

    @property
    def labels(self) -> dict[str, Any]:
        """Labels of the probe and of what it was given, and the seed."""
        return dict(self.record["labels"])

    @property
    def choices(self) -> list[BoundComponent]:
        """Every component of this job."""
        return _bound(self.probe, self.architecture, self.dataset)


def _bound(probe: BoundProbe, *axes: BoundComponent | None) -> list[BoundComponent]:
    given = [each for each in axes if each is not None]
    return [probe, *given, *itertools.chain(*probe.estimators.values())]


def make_job(
    settings: Settings,
    probe: BoundProbe,
    architecture: BoundComponent | None,
    dataset: BoundComponent | None,
    *,
    seed: int,
    device_type: str,
    gpu: Mapping[str, str] | None = None,
) -> Job:
    """The job with its id (what is measured) and key (with which code, data and versions).

    Args:
        settings: What holds for the whole experiment.
        probe: The probe with its estimators and training.
        architecture: The architecture of this cell, if it has one.
        dataset: The dataset of this cell, if it has one.
        seed: The seed of this cell.
        device_type: cpu or cuda: numbers of the two are not the same.
        gpu: Which GPU and driver: nor are those of two kinds of GPU.

    Returns:
        The job.
    """
    described = _described(settings, probe, architecture, dataset)
    described |= {"seed": seed, "device": device_type}
    # The request names the folder: an upgraded plugin finds its old result there.
    request = _without_versions(described)
    if dataset is None:
        request |= {"shape": list(settings.shape), "outputs": settings.outputs}
    labels = _labels(probe, architecture, dataset, seed)
    # Code and versions enter the key: where they change, the job is computed again.
    bound = _bound(probe, architecture, dataset)
    registrations = [each.registration for each in bound]
    sources: dict[str, Any] = {
        "versions": versions([*registrations, *probe.used.values()]),
        "code": _contents(bound) | _loss_code(probe),
    }
    if gpu:
        sources["gpu"] = dict(gpu)
    record = {
        **described,
        "preset": probe.preset,
        "summary": probe.component.summary(),
        "question": type(probe.component).question,
        "labels": labels,
        **sources,
        **_declared(probe, architecture),
    }
    return Job(
        id=_folder_name(labels, request),
        key=long_hash([request, sources]),
        settings=settings,
        probe=probe,
        architecture=architecture,
        dataset=dataset,
        seed=seed,
        record=record,
        network_key=_network_key(request, architecture, dataset),
    )


def _described(
    settings: Settings,
    probe: BoundProbe,
    architecture: BoundComponent | None,
    dataset: BoundComponent | None,
) -> dict[str, Any]:
    """The components, training and settings of a job, as results record them."""
    estimators = {}
    for role, bound in probe.estimators.items():
        records = [each.described for each in bound]
        estimators[role] = records[0] if len(records) == 1 else records
    return {
        "probe": probe.described,
        "architecture": architecture.described if architecture else None,
        "dataset": dataset.described if dataset else None,
        "estimators": estimators,
        "training": plain(probe.training.options()) if probe.training else None,
        "dtype": settings.dtype,
        "threads": settings.threads,
        **_unusual(settings),
    }


def _unusual(settings: Settings) -> dict[str, Any]:
    """Settings that change numbers, where they differ from their defaults."""
    # Left out otherwise, so that ids of older jobs do not change.
    usual = {"precision": "float32", "memory": None}
    values = {name: getattr(settings, name) for name in usual}
    return {name: value for name, value in values.items() if value != usual[name]}


def _declared(probe: BoundProbe, architecture: BoundComponent | None) -> dict[str, Any]:
    """The meanings of the probe's quantities and arrays, and the target of its figures."""
    options = probe.component.options()
    labels = probe.estimator_labels
    # A function without an importable name cannot be stored.
    target = type(probe.component).figures
    meanings = filled(probe.component.quantities, options, labels)
    about = filled(probe.component.arrays, options, labels)
    if architecture is not None and architecture.network_kind == "trajectory":
        about = {**about_steps(meanings), **about}
    return {
        "about": about,
        "meanings": meanings,
        "figures": target if isinstance(target, str) else "",
    }


def _labels(
    probe: BoundProbe,
    architecture: BoundComponent | None,
    dataset: BoundComponent | None,
    seed: int,
) -> dict[str, Any]:
    labels: dict[str, Any] = {"probe": probe.label, "seed": seed}
    axes = {"architecture": architecture, "dataset": dataset}
    return labels | {axis: bound.label for axis, bound in axes.items() if bound is not None}


def _folder_name(labels: Mapping[str, Any], request: dict[str, Any]) -> str:
    """`<probe>-<architecture>-<dataset>-s<seed>-<8 hex>`, a folder's name on every system."""
    *axes, _ = _LABELS
    words = [str(labels[axis]) for axis in axes if axis in labels]
    words += [f"s{labels['seed']}", short_hash(request)]
    name = re.sub(r"[^\w.-]+", "-", "-".join(words))
    length = len(name.encode())
    if length > LONGEST_NAME:
        raise Error(
            f"the labels of a job make a folder's name of {length} bytes, "
            f"expected at most {LONGEST_NAME}: {name[:60]}...; give shorter labels"
        )
    return name


def _loss_code(probe: BoundProbe) -> dict[str, str]:
    """The hash of a loss of the user's own, where a training or the probe has one."""
    named = {
        "training.loss": getattr(probe.training, "loss", ""),
        "probe.loss": getattr(probe.component, "loss", ""),
    }
    own = {key: name for key, name in named.items() if isinstance(name, str) and ":" in name}
    return {key: _object_hash(name, "the loss") for key, name in own.items()}


def _contents(bound: list[BoundComponent]) -> dict[str, str]:
    return {key: text for each in bound for key, text in each.content.items()}


def _network_key(
    request: dict[str, Any], architecture: BoundComponent | None, dataset: BoundComponent | None
) -> str:
    """What a trained network depends on besides its training: not on the probe."""
    settings = {name: request[name] for name in _OF_A_NETWORK if name in request}
    bound = [each for each in (architecture, dataset) if each is not None]
    registrations = [each.registration for each in bound]
    return long_hash([settings, versions(registrations), _contents(bound)])


def _without_versions(value: object) -> Any:
    """The request without versions: an upgrade of a plugin does not change it."""
    if isinstance(value, dict):
        names = [key for key in value if key not in ("plugin", "version")]
        return {key: _without_versions(value[key]) for key in names}
    if isinstance(value, list):
        return [_without_versions(inner) for inner in value]
    return value


def training_name(network_key: str, training: Training) -> str:
    """The name of a training's folder: long enough that no two are the same by chance."""
    parts = [network_key, plain(training.options())]
    if ":" in training.loss:
        parts.append(_object_hash(training.loss, "the loss"))
    text = long_hash(parts)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def serial_reason(job: Job) -> str:
    """Why this job can only run in this process; empty if it can be sent to others."""
    cure = "which other processes cannot import; put it in a module"
    for bound in job.choices:
        cls = type(bound.component)
        what = f"{cls.kind} {bound.label!r}"
        # Functions and classes are sent by their names.
        for value in [cls.target, *bound.component.options().values()]:
            if callable(value) and not sendable(value):
                name = getattr(value, "__qualname__", type(value).__name__)
                return f"{what} is made by {name}, {cure}"
        if cls.__module__ == "__main__":
            return f"{what} is declared in a script, {cure}"
    return ""
