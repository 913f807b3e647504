"""Jobs: one cell of an experiment's grid, with its id and key."""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
import secrets
from collections.abc import Iterator, Mapping
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
    """A component that an experiment chose, with its label and where it came from."""

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
        """Hashes of the user's own code, data and files that this choice depends on.

        What cannot be identified is given a hash that nothing else has.
        """
        found: dict[str, str] = {}
        component = self.component
        # Options that hold the user's own objects and arrays.
        for name, metadata, value in _options(component):
            place = f"{component.name}.{name}"
            if metadata["target"]:
                found[place] = _object_hash(value, name)
            elif metadata["array"] and value is not None:
                # Text is where the array is to be read from.
                array = read_array(value, place) if isinstance(value, str) else value
                found[place] = content_hash(array)[:32]
        # Files, which change while their names stay.
        if self.weights:
            paths = list(map(Path, self.weights.content))
            hashes = {f"{self.label}.weights {path}": file_hash(path) for path in paths}
            # One file keeps the name that it had before there were several.
            if len(paths) == 1:
                hashes = {f"{self.label}.weights": file_hash(paths[0])}
            found |= hashes
        if hasattr(component, "files"):
            for path in map(Path, component.files()):
                found[f"file {path.name}"] = file_hash(path)
        # Code of the user's own, wherever it stands; what a plugin names by text has its version.
        target = type(component).target
        if self.registration.distribution == OWN or not isinstance(target, str):
            found[f"{component.name}.target"] = _object_hash(target, component.name)
        return found

    @property
    def unidentified(self) -> list[str]:
        """Options whose value cannot be told apart from another."""
        return [place for place, text in self.content.items() if isinstance(text, _Unidentified)]

    @property
    def network_kind(self) -> str:
        """What it stands for: "fresh" networks, one "trained" network, or a "trajectory"."""
        if self.weights is not None:
            return "trajectory" if self.weights.is_trajectory else "trained"
        source = getattr(self.component, "factory", None)
        # A module class has the method as well, but makes a fresh network at every call.
        is_module = hasattr(source, "state_dict") and not isinstance(source, type)
        return "trained" if is_module else "fresh"


class _Unidentified(str):
    """A hash that nothing else has, of an object that cannot be told apart from others."""


def _options(component: Any) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    for field in attrs.fields(type(component)):
        yield field.name, field.metadata, getattr(component, field.name)


def _object_hash(value: object, name: str) -> str:
    source = resolve(value, name) if isinstance(value, str) else value
    try:
        return content_hash(source)[:32]
    except UnidentifiableError as error:
        # Never the same twice: a result that may be of another object is not taken for this one's.
        return _Unidentified(f"unknown {error} {secrets.token_hex(8)}")


@attrs.frozen(eq=False)
class BoundProbe(BoundComponent):
    """A probe with its estimators, its training and the axes it was given.

    `trains_further` says that a training was asked for by the probe itself: then a network of the
    user's own is trained further instead of being measured as it is.
    """

    preset: str = "quick"
    estimators: Mapping[str, tuple[BoundComponent, ...]] = attrs.field(factory=dict)
    training: Training | None = None
    trains_further: bool = False
    used: Mapping[tuple[str, str], Registration] = attrs.field(factory=dict)
    axes: Mapping[str, tuple[BoundComponent | None, ...]] = attrs.field(factory=dict)

    @property
    def estimator_labels(self) -> dict[str, list[str]]:
        """Labels of the chosen estimators of every role."""
        chosen = self.estimators.items()
        return {role: [choice.label for choice in choices] for role, choices in chosen}


@attrs.frozen(eq=False)
class Job:
    """One cell of the grid: all that a worker needs to measure it, nothing of the run around it."""

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
        """Everything that was chosen for this job."""
        return _chosen(self.probe, self.architecture, self.dataset)


def _chosen(probe: BoundProbe, *axes: BoundComponent | None) -> list[BoundComponent]:
    given = [choice for choice in axes if choice is not None]
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
    """The job with its id (what was asked) and key (what it was asked of).

    Args:
        settings: What holds for the whole experiment.
        probe: The probe with its estimators and training.
        architecture: The architecture of this cell, if it has one.
        dataset: The dataset of this cell, if it has one.
        seed: The seed of this cell.
        device_type: cpu or cuda: numbers of the two are not the same.
        gpu: Which GPU and what drives it: nor are those of two kinds of these.

    Returns:
        The job.
    """
    described = _described(settings, probe, architecture, dataset)
    described |= {"seed": seed, "device": device_type}
    # What was asked names the folder: an upgraded plugin finds its old result there.
    asked = _without_versions(described)
    if dataset is None:
        asked |= {"shape": list(settings.shape), "outputs": settings.outputs}
    labels = _labels(probe, architecture, dataset, seed)
    # What it was asked of enters the key: where that changed, the job is computed again.
    chosen = _chosen(probe, architecture, dataset)
    registrations = [choice.registration for choice in chosen]
    code = _contents(chosen) | _loss_code(probe)
    found = {"versions": versions([*registrations, *probe.used.values()]), "code": code}
    if gpu:
        found["gpu"] = dict(gpu)
    record = {
        **described,
        "preset": probe.preset,
        "summary": probe.component.summary(),
        "question": type(probe.component).question,
        "labels": labels,
        **found,
        **_declared(probe, architecture),
    }
    return Job(
        id=_folder_name(labels, asked),
        key=long_hash([asked, found]),
        settings=settings,
        probe=probe,
        architecture=architecture,
        dataset=dataset,
        seed=seed,
        record=record,
        network_key=_network_key(asked, architecture, dataset),
    )


def _described(
    settings: Settings,
    probe: BoundProbe,
    architecture: BoundComponent | None,
    dataset: BoundComponent | None,
) -> dict[str, Any]:
    """What was asked for, as results record it."""
    estimators = {}
    for role, chosen in probe.estimators.items():
        records = [choice.described for choice in chosen]
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
    """Settings that change numbers, where they are not what they are by default."""
    # Left out otherwise, so that ids of older jobs do not change.
    usual = {"precision": "float32", "memory": None}
    values = {name: getattr(settings, name) for name in usual}
    return {name: value for name, value in values.items() if value != usual[name]}


def _declared(probe: BoundProbe, architecture: BoundComponent | None) -> dict[str, Any]:
    """What the probe says of its numbers and pictures, with names filled in."""
    options = probe.component.options()
    labels = probe.estimator_labels
    # A function without a name cannot be found again; its figures are drawn at once or never.
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
    return labels | {axis: choice.label for axis, choice in axes.items() if choice is not None}


def _folder_name(labels: Mapping[str, Any], asked: dict[str, Any]) -> str:
    """`<probe>-<architecture>-<dataset>-s<seed>-<8 hex>`, a folder's name on every system."""
    *axes, _ = _LABELS
    parts = [str(labels[axis]) for axis in axes if axis in labels]
    parts += [f"s{labels['seed']}", short_hash(asked)]
    # Labels are the user's words; a folder's name takes few of their characters.
    name = re.sub(r"[^\w.-]+", "-", "-".join(parts))
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
    own = {place: name for place, name in named.items() if isinstance(name, str) and ":" in name}
    return {place: _object_hash(name, "the loss") for place, name in own.items()}


def _contents(chosen: list[BoundComponent]) -> dict[str, str]:
    return {place: text for choice in chosen for place, text in choice.content.items()}


def _network_key(
    asked: dict[str, Any], architecture: BoundComponent | None, dataset: BoundComponent | None
) -> str:
    """What a trained network depends on besides its training: neither probe nor its options."""
    parts = {name: asked[name] for name in _OF_A_NETWORK if name in asked}
    # Code and content of what it is made of.
    chosen = [choice for choice in (architecture, dataset) if choice is not None]
    return long_hash(
        [parts, versions([choice.registration for choice in chosen]), _contents(chosen)]
    )


def _without_versions(value: object) -> Any:
    """What was asked for; upgrading a plugin asks for nothing else."""
    if isinstance(value, dict):
        kept = value.keys() - {"plugin", "version"}
        return {key: _without_versions(part) for key, part in value.items() if key in kept}
    if isinstance(value, list):
        return [_without_versions(part) for part in value]
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
    for choice in job.choices:
        cls = type(choice.component)
        what = f"{cls.kind} {choice.label!r}"
        # Functions and classes are sent by their names.
        for value in [cls.target, *choice.component.options().values()]:
            if callable(value) and not sendable(value):
                name = getattr(value, "__qualname__", type(value).__name__)
                return f"{what} is made by {name}, {cure}"
        if cls.__module__ == "__main__":
            return f"{what} is declared in a script, {cure}"
    return ""
