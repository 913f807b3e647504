"""Experiments: from TOML (or a dict) to validated components, and from those to jobs."""

import itertools
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import attrs
from penchant.components.component import Architecture, Component, Dataset, Executor
from penchant.components.taking import AXES
from penchant.components.training import Training
from penchant.errors import Error, suggestion
from penchant.experiments.document import Document, Table, text_of
from penchant.experiments.jobs import Axis, BoundComponent, BoundProbe, Cell, Job, make_job
from penchant.experiments.probe_entries import Known, ProbeEntry
from penchant.experiments.settings import Settings
from penchant.experiments.typed_text import parse_component
from penchant.experiments.weights import weights_of
from penchant.plugins.discovery import Plugins
from penchant.results.bounds import LARGEST_EXPERIMENT

_TABLES = ("architectures", "datasets", "training", "probes")


@attrs.frozen(eq=False)
class Experiment:
    """A validated experiment."""

    settings: Settings
    probes: tuple[BoundProbe, ...]
    raw: Table
    executor: Executor | None = None

    def jobs(self, device_type: str, gpu: Mapping[str, str] | None = None) -> list[Job]:
        """Every job on a cpu or cuda device; `gpu` says which GPU it is and what drives it.

        Jobs of one dataset follow each other, because a process caches one dataset.
        """
        jobs = [make_job(cell, device_type, gpu or {}) for cell in self._cells()]
        # Datasets in the order of their first job; the sort is stable.
        order = list(dict.fromkeys(job.labels.get("dataset", "") for job in jobs))
        jobs.sort(key=lambda job: order.index(job.labels.get("dataset", "")))
        # One folder cannot hold two of them.
        if len({job.id for job in jobs}) < len(jobs):
            hint = "give one of them other options or a label"
            raise Error(f"two probes of the experiment are the same; {hint}")
        return jobs

    def _cells(self) -> Iterator[Cell]:
        for probe in self.probes:
            # An axis that the probe does not take has the one entry None.
            architectures = cast("Axis[Architecture]", probe.axes["architecture"])
            datasets = cast("Axis[Dataset]", probe.axes["dataset"])
            seeds = self.settings.seeds
            for architecture, dataset, seed in itertools.product(architectures, datasets, seeds):
                yield Cell(self.settings, probe, architecture, dataset, seed)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; a mistake names line and column."""
    try:
        size = path.stat().st_size
        if size > LARGEST_EXPERIMENT:
            raise Error(f"{path} has {size} bytes, expected at most {LARGEST_EXPERIMENT}")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise Error(f"{path} is not valid TOML: {error}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise Error(f"{path} cannot be read: {error}") from None


def build(raw: Table, plugins: Plugins, where: str = "experiment") -> Experiment:
    """Validate an experiment: nothing runs before everything it names is known and fits.

    Errors name the file `where`, and the key.
    """
    document = Document(raw, plugins, where)
    executor = _executor(document)
    settings = _settings(document, executor)
    known = {axis: bound_components(document, axis) for axis in AXES}
    # Also where no probe trains: its mistakes are reported before anything runs.
    Training.bind(document.training(), f"{where}, training")
    entries = document.tables("probes")
    if not entries:
        raise Error(f"the experiment has no probe: add [[probes]] with a name ({where})")
    probes = [ProbeEntry(document, entry, key).bound(known) for key, entry in entries]
    _check_used(known, probes, where)
    return Experiment(settings, tuple(probes), raw, executor)


def _executor(document: Document) -> Executor | None:
    """The executor: a name, `ray:address=auto`, or a table with a name and options."""
    given = document.raw.get("executor")
    if given is None:
        return None
    where = f"{document.where}, executor"
    if isinstance(given, str):
        given = parse_component(given)
    entry = document.table(given, where)
    registration = document.registration("executor", entry, where)
    return cast("Executor", document.component(registration, entry, where))


def _settings(document: Document, executor: Executor | None) -> Settings:
    """What holds for the whole experiment: every key that is no table."""
    known = {field.name for field in attrs.fields(Settings)} | set(_TABLES)
    for key in document.raw:
        if key not in known:
            raise Error(f"unknown key {key!r}{suggestion(key, known)} ({document.where})")
    own = {key: value for key, value in document.raw.items() if key not in _TABLES}
    # The executor's name is a setting; its options are its own.
    own["executor"] = executor and executor.name
    return Settings.bind(own, document.where)


def bound_components(document: Document, kind: str) -> dict[str, BoundComponent[Component]]:
    """The architectures or datasets of the experiment, by label."""
    components: dict[str, BoundComponent[Component]] = {}
    for where, entry in document.tables(f"{kind}s"):
        registration = document.registration(kind, entry, where)
        # Probes select it, and results call it, by its label.
        label = text_of(entry.get("label", registration.component.name), f"{where}.label")
        if label in components:
            hint = "give each a label of its own"
            raise Error(f"two {kind}s are called {label!r}; {hint} ({where})")
        weights = weights_of(entry, where) if kind == "architecture" else None
        component = document.component(registration, entry, where)
        components[label] = BoundComponent(component, registration, label, weights)
    return components


def _check_used(known: Mapping[str, Known], probes: list[BoundProbe], where: str) -> None:
    """Refuse an architecture or dataset that no probe takes."""
    for axis in AXES:
        given = [bound for probe in probes for bound in probe.axes[axis]]
        taken = {bound.label for bound in given if bound is not None}
        unused = [label for label in known[axis] if label not in taken]
        if not unused:
            continue
        label = unused[0]
        able = [probe.label for probe in probes if type(probe.component).has_axis(axis)]
        hint = f"none of the probes takes a {axis}"
        if able:
            named = f"{axis}s = {json.dumps([label], ensure_ascii=False)}"
            hint = f"of several {axis}s {able[0]} uses those that its entry names: {named}"
        raise Error(f"no probe uses the {axis} {label!r}; {hint} ({where}, {axis}s)")
