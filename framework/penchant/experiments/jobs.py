"""Jobs: one cell of an experiment's grid, with its id and key."""

import functools
import itertools
import re
import secrets
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import attrs
from penchant.components.component import Architecture, Component, Dataset, Estimator, Probe
from penchant.components.names import filled, name_and_axes
from penchant.components.taking import AXES
from penchant.components.targets import resolve, sendable
from penchant.components.training import Training
from penchant.errors import Error
from penchant.experiments.arrays import option_arrays
from penchant.experiments.checksums import file_hash
from penchant.experiments.identity import (
    UnidentifiableError,
    content_hash,
    long_hash,
    plain,
    short_hash,
)
from penchant.experiments.settings import Settings
from penchant.experiments.sources import is_own, versions
from penchant.experiments.weights import Weights
from penchant.plugins.registry import OWN, Registration
from penchant.results.records import ComponentRecord, JobRecord, Labels
from penchant.results.steps import about_steps

LONGEST_NAME = 200  # bytes of a folder's name: every file system takes it, with room for endings
_OF_A_NETWORK = ("architecture", "dataset", "seed", "dtype", "device", "threads", "precision")

C = TypeVar("C", bound=Component, covariant=True)


@attrs.frozen(eq=False)
class BoundComponent(Generic[C]):
    """A component with its options, as an experiment names it: label, plugin, weights."""

    component: C
    registration: Registration
    label: str
    weights: Weights | None = None

    @functools.cached_property
    def described(self) -> ComponentRecord:
        """Name, options, plugin and version, as results record them."""
        record: ComponentRecord = {
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
                hashes[key] = content_hash(option_arrays(field, value, key))[:32]
            elif field.metadata["arrays"] and value is not None:
                # In their order, which the hash of a dict leaves out.
                arrays = list(option_arrays(field, value, key).items())
                hashes[key] = content_hash(arrays)[:32]
        if self.weights:
            paths = self.weights.content
            key = f"{self.label}.weights"
            for path in paths:
                hashes[key if len(paths) == 1 else f"{key} {path}"] = file_hash(Path(path))
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
            return "trained" if self.weights.steps is None else "trajectory"
        source = getattr(self.component, "factory", None)
        # A module class has the method as well, but makes a fresh network at every call.
        is_module = hasattr(source, "state_dict") and not isinstance(source, type)
        return "trained" if is_module else "fresh"


def _module_of(value: object) -> str:
    """The module of a class, function or object, or that a target names."""
    if isinstance(value, str):
        return value.partition(":")[0]
    return getattr(value, "__module__", None) or ""


Axis = tuple[BoundComponent[C] | None, ...]  # what a probe is measured on along one axis


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
class BoundProbe(BoundComponent[Probe]):
    """A probe with its estimators, its training and the axes it was given.

    With `trains_further`, the probe's own entry has a training: then a network of the user's is
    trained further instead of being measured as it is. `reduced` says what `--quick` changed,
    `unselected` which architectures and datasets its entry could have named and did not.
    """

    preset: str = "quick"
    estimators: Mapping[str, tuple[BoundComponent[Estimator], ...]] = attrs.field(factory=dict)
    training: Training | None = None
    trains_further: bool = False
    reduced: str = ""
    used: Mapping[tuple[str, str], Registration] = attrs.field(factory=dict)
    axes: Mapping[str, Axis[Component]] = attrs.field(factory=dict)
    unselected: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)

    @property
    def estimator_labels(self) -> dict[str, list[str]]:
        """Labels of the estimators of every role."""
        return {role: [each.label for each in bound] for role, bound in self.estimators.items()}

    @property
    def tables(self) -> dict[str, tuple[str, ...]]:
        """Names of the declared tables, and their axes."""
        probe = self.component
        names = filled(probe.tables, probe.options(), self.estimator_labels)
        return dict(map(name_and_axes, names))


@attrs.frozen(eq=False)
class Cell:
    """One cell of the grid: a probe, an architecture and a dataset if it takes them, a seed."""

    settings: Settings
    probe: BoundProbe
    architecture: BoundComponent[Architecture] | None
    dataset: BoundComponent[Dataset] | None
    seed: int

    @property
    def axes(self) -> dict[str, BoundComponent[Component]]:
        """What the probe is measured on."""
        axes: dict[str, BoundComponent[Component]] = {}
        if self.architecture is not None:
            axes["architecture"] = self.architecture
        if self.dataset is not None:
            axes["dataset"] = self.dataset
        return axes

    @property
    def choices(self) -> list[BoundComponent[Component]]:
        """Every component of this cell."""
        estimators = itertools.chain(*self.probe.estimators.values())
        return [self.probe, *self.axes.values(), *estimators]

    @property
    def registrations(self) -> list[Registration]:
        """Where its components come from, and those that the probe uses by name."""
        return [*(each.registration for each in self.choices), *self.probe.used.values()]

    @property
    def modules(self) -> set[str]:
        """Modules of the user's own that its components name."""
        values = [getattr(self.probe.training, "loss", "")]
        for bound in self.choices:
            values += [type(bound.component), *bound.component.options().values()]
        names = {_module_of(value) for value in values}
        return {name for name in names if is_own(name)}

    @property
    def labels(self) -> Labels:
        """Labels of the probe and of what it was given, and the seed."""
        axes = {axis: bound.label for axis, bound in self.axes.items()}
        return {"probe": self.probe.label, "seed": self.seed, **axes}


@attrs.frozen(eq=False, kw_only=True)
class Job(Cell):
    """A cell with everything that a worker needs to measure it."""

    id: str  # what is measured; the name of the job's folder
    key: str  # with which code, data and versions
    record: JobRecord  # what results record of it
    network_key: str  # what a trained network depends on besides its training


def make_job(cell: Cell, device_type: str, gpu: Mapping[str, str]) -> Job:
    """The job of a cell on cpu or cuda; `gpu` is the kind of GPU and its driver.

    Numbers of cpu and cuda are not the same, nor are those of two kinds of GPU.
    """
    described: JobRecord = {**_described(cell), "seed": cell.seed, "device": device_type}
    # The request names the folder: an upgraded plugin finds its old result there.
    request = _without_versions(described)
    if cell.dataset is None:
        request |= {"shape": list(cell.settings.shape), "outputs": cell.settings.outputs}
    # Code and versions enter the key: where they change, the job is computed again.
    probe = cell.probe
    sources: JobRecord = {
        "versions": versions(cell.registrations),
        "code": _contents(cell.choices) | _loss_code(probe),
    }
    if gpu:
        sources["gpu"] = dict(gpu)
    record: JobRecord = {
        **described,
        "preset": probe.preset,
        "summary": probe.component.summary(),
        "question": type(probe.component).question,
        "labels": cell.labels,
        **sources,
        **_declared(cell),
    }
    return Job(
        **attrs.asdict(cell, recurse=False),
        id=_folder_name(cell.labels, request),
        key=long_hash([request, sources]),
        record=record,
        network_key=_network_key(request, cell.axes.values()),
    )


def _described(cell: Cell) -> JobRecord:
    """The components, training and settings of a job, as results record them."""
    probe, settings = cell.probe, cell.settings
    estimators: dict[str, ComponentRecord | list[ComponentRecord]] = {}
    for role, bound in probe.estimators.items():
        records = [each.described for each in bound]
        estimators[role] = records[0] if len(records) == 1 else records
    record: JobRecord = {
        "probe": probe.described,
        "architecture": cell.architecture.described if cell.architecture else None,
        "dataset": cell.dataset.described if cell.dataset else None,
        "estimators": estimators,
        "training": plain(probe.training.options()) if probe.training else None,
        "dtype": settings.dtype,
        "threads": settings.threads,
    }
    # Defaults are left out, so that ids of older jobs do not change.
    if settings.precision != "float32":
        record["precision"] = settings.precision
    if settings.memory is not None:
        record["memory"] = settings.memory
    return record


def _declared(cell: Cell) -> JobRecord:
    """The meanings of the probe's quantities and arrays, and the target of its figures."""
    probe = cell.probe.component
    options = probe.options()
    labels = cell.probe.estimator_labels
    meanings = filled(probe.quantities, options, labels)
    about = filled(probe.arrays, options, labels)
    for name, meaning in filled(probe.tables, options, labels).items():
        about[name_and_axes(name)[0]] = meaning
    if cell.architecture is not None and cell.architecture.network_kind == "trajectory":
        about = {**about_steps(meanings), **about}
    # A function without an importable name cannot be stored.
    target = type(probe).figures
    declared: JobRecord = {
        "about": about,
        "meanings": meanings,
        "figures": target if isinstance(target, str) else "",
    }
    if probe.headline is not None:
        declared["headline"] = attrs.asdict(probe.headline)
    return declared


def _folder_name(labels: Labels, request: dict[str, Any]) -> str:
    """`<probe>-<architecture>-<dataset>-s<seed>-<8 hex>`, a folder's name on every system."""
    words = [str(labels[axis]) for axis in ("probe", *AXES) if axis in labels]
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


def _contents(bound: Iterable[BoundComponent[Component]]) -> dict[str, str]:
    return {key: text for each in bound for key, text in each.content.items()}


def _network_key(request: dict[str, Any], axes: Collection[BoundComponent[Component]]) -> str:
    """What a trained network depends on besides its training: not on the probe."""
    settings = {name: request[name] for name in _OF_A_NETWORK if name in request}
    registrations = [each.registration for each in axes]
    return long_hash([settings, versions(registrations), _contents(axes)])


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
    return long_hash(parts)


def serial_reason(job: Job) -> str:
    """Why this job can only run in this process; empty if it can be sent to others."""
    hint = "which other processes cannot import; put it in a module"
    for bound in job.choices:
        cls = type(bound.component)
        what = f"{cls.kind} {bound.label!r}"
        # Functions and classes are sent by their names.
        for value in [cls.target, *bound.component.options().values()]:
            if callable(value) and not sendable(value):
                name = getattr(value, "__qualname__", type(value).__name__)
                return f"{what} is made by {name}, {hint}"
        if cls.__module__ == "__main__":
            return f"{what} is declared in a script, {hint}"
    return ""
