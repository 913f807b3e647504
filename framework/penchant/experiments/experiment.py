"""Experiments: from TOML (or a dict) to validated components, and from those to jobs."""

from __future__ import annotations

import collections
import itertools
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from penchant.components.component import AXES, Probe
from penchant.components.roles import role_of
from penchant.components.training import Training
from penchant.errors import Error, suggestion
from penchant.experiments.jobs import Choice, Job, ProbeChoice, make_job
from penchant.experiments.settings import Settings
from penchant.experiments.typed_text import parse_component
from penchant.plugins.discovery import Offer, Plugins

LARGEST_FILE = 10_000_000  # bytes of an experiment that anybody wrote
_TABLES = ("architectures", "datasets", "training", "probes")
_OF_A_PROBE = "name label preset estimators training architectures datasets".split()


@attrs.frozen(eq=False)
class Experiment:
    """A validated experiment."""

    settings: Settings
    probes: tuple[ProbeChoice, ...]
    raw: Mapping[str, Any]

    def jobs(self, device_type: str) -> list[Job]:
        """Every job; those of one dataset are neighbours, because one loaded dataset is kept."""
        jobs: list[Job] = []
        for probe in self.probes:
            jobs.extend(self._jobs(probe, device_type))
        names = [job.labels.get("dataset", "") for job in jobs]
        order = {name: place for place, name in enumerate(dict.fromkeys(names))}
        jobs.sort(key=lambda job: order[job.labels.get("dataset", "")])
        if len({job.id for job in jobs}) < len(jobs):
            cure = "give one of them other options or a label"
            raise Error(f"two probes of the experiment are the same; {cure}")
        return jobs

    def _jobs(self, probe: ProbeChoice, device_type: str) -> Iterator[Job]:
        grid = itertools.product(
            probe.axes["architecture"], probe.axes["dataset"], self.settings.seeds
        )
        for architecture, dataset, seed in grid:
            yield make_job(
                self.settings,
                probe,
                architecture,
                dataset,
                seed=seed,
                device_type=device_type,
            )


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; a mistake names line and column."""
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise Error(f"{path} has {size} bytes, expected at most {LARGEST_FILE}")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise Error(f"{path} is not valid TOML: {error}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise Error(f"{path} cannot be read: {error}") from None


def build(raw: Mapping[str, Any], plugins: Plugins, where: str = "experiment") -> Experiment:
    """Validate an experiment: nothing runs before everything it names is known and fits.

    Args:
        raw: The tables of an experiment.
        plugins: Where its components are looked for.
        where: The name of the file, for messages.

    Returns:
        The experiment.
    """
    return _Builder(raw, plugins, where).experiment()


class _Builder:
    """Reads one experiment; keeps what every step needs: the plugins and the name of the file."""

    def __init__(self, raw: Mapping[str, Any], plugins: Plugins, where: str) -> None:
        if not isinstance(raw, Mapping):
            raise Error(f"{where} must be a table, found {type(raw).__name__}")
        self.raw = raw
        self.plugins = plugins
        self.where = where

    def experiment(self) -> Experiment:
        """Everything, in the order in which a reader would check it."""
        settings = self.settings()
        known = {axis: self.choices(axis) for axis in AXES}
        Training.bind(self._training(), f"{self.where}, training")
        entries = self.tables("probes")
        if not entries:
            raise Error(f"the experiment has no probe: add [[probes]] with a name ({self.where})")
        probes = []
        for index, entry in enumerate(entries):
            probes.append(self.probe(entry, known, f"{self.where}, probes[{index}]"))
        self.check_used(known, probes)
        return Experiment(settings, tuple(probes), self.raw)

    def settings(self) -> Settings:
        """What holds for the whole experiment."""
        known = {field.name for field in attrs.fields(Settings)} | set(_TABLES)
        for key in self.raw:
            if key not in known:
                raise Error(f"unknown key {key!r}{suggestion(key, known)} ({self.where})")
        own = {key: value for key, value in self.raw.items() if key not in _TABLES}
        settings: Settings = Settings.bind(own, self.where)
        seeds = list(settings.seeds)
        if not seeds:
            raise Error(f"expected at least one seed, found none ({self.where}, seeds)")
        if len(set(seeds)) < len(seeds):
            raise Error(f"seeds must differ, found {seeds} ({self.where})")
        if not 1 <= len(settings.shape) <= 3:
            found = f"found {list(settings.shape)} ({self.where}, shape)"
            raise Error(f"shape must have one to three dimensions, {found}")
        return settings

    def check_used(self, known: Mapping[str, dict[str, Choice]], probes: list[Any]) -> None:
        """An architecture or dataset that no probe takes was meant for something."""
        for axis in AXES:
            taken = {choice.label for probe in probes for choice in probe.axes[axis] if choice}
            for label in known[axis]:
                if label in taken:
                    continue
                able = [probe.label for probe in probes if type(probe.component).takes(axis)]
                cure = (
                    f"{able[0]} takes it only when selected: {axis}s = [{label!r}]"
                    if able
                    else (f"none of the probes takes a {axis}")
                )
                raise Error(f"no probe uses the {axis} {label!r}; {cure} ({self.where}, {axis}s)")

    def _training(self) -> Mapping[str, Any]:
        return self.table(self.raw.get("training", {}), f"{self.where}, training")

    def table(self, value: Any, where: str) -> Mapping[str, Any]:
        """A table, or an Error."""
        if not isinstance(value, Mapping):
            raise Error(f"expected a table, found {value!r} ({where})")
        return value

    def tables(self, key: str) -> list[Mapping[str, Any]]:
        """A list of tables, or an Error."""
        value = self.raw.get(key, [])
        if not isinstance(value, (list, tuple)):
            kind = type(value).__name__
            place = f"({self.where}, {key})"
            raise Error(f"{key} must be a list of tables ([[{key}]]), found {kind} {place}")
        found = []
        for index, each in enumerate(value):
            found.append(self.table(each, f"{self.where}, {key}[{index}]"))
        return found

    def offer(self, kind: str, entry: Mapping[str, Any], where: str) -> Offer:
        """The component that an entry names."""
        name = entry.get("name")
        if not isinstance(name, str):
            raise Error(f"expected a name of an installed {kind}, found {name!r} ({where}.name)")
        return self.plugins.find(kind, name, f"{where}.name")

    def choices(self, kind: str) -> dict[str, Choice]:
        """The architectures or datasets of the experiment, by label."""
        found: dict[str, Choice] = {}
        own = ("name", "label", "weights") if kind == "architecture" else ("name", "label")
        for index, entry in enumerate(self.tables(f"{kind}s")):
            where = f"{self.where}, {kind}s[{index}]"
            offer = self.offer(kind, entry, where)
            label = _text(entry.get("label", offer.component.name), f"{where}.label")
            if label in found:
                cure = "give each a label of its own"
                raise Error(f"two {kind}s are called {label!r}; {cure} ({where})")
            weights = entry.get("weights") if kind == "architecture" else None
            if weights is not None:
                weights = _existing_file(weights, f"{where}.weights")
            options = {name: value for name, value in entry.items() if name not in own}
            found[label] = Choice(offer.component.bind(options, where), offer, label, weights)
        return found

    def probe(
        self, entry: Mapping[str, Any], known: Mapping[str, dict[str, Choice]], where: str
    ) -> ProbeChoice:
        """One probe with everything it was given."""
        offer = self.offer("probe", entry, where)
        cls: Any = offer.component
        preset = self.preset(cls, entry, where)
        options = {name: value for name, value in entry.items() if name not in _OF_A_PROBE}
        for name, value in preset.items():
            if name not in ("estimators", "training"):
                options.setdefault(name, value)
        axes = {kind: self.axis(cls, kind, entry, known[kind], where) for kind in AXES}
        own_training = self.table(entry.get("training", {}), f"{where}.training")
        self.check_training(cls, own_training, where)
        for architecture in axes["architecture"]:
            _check_one_network(cls, architecture, where)
        estimators = self.estimators(cls, preset.get("estimators", {}), entry, where)
        component = cls.bind(options, where)
        return ProbeChoice(
            component,
            offer,
            _text(entry.get("label", cls.name), f"{where}.label"),
            preset=_text(entry.get("preset", "quick"), f"{where}.preset"),
            estimators=estimators,
            training=self.training(cls, preset, own_training, where),
            trains_further=bool(own_training),
            used=self.used([component, *_components(estimators)], where),
            axes=axes,
        )

    def preset(self, cls: type[Probe], entry: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        """The preset that an entry names; `quick` where it names none."""
        name = _text(entry.get("preset", "quick"), f"{where}.preset")
        if name in cls.presets:
            return cls.presets[name]
        if name == "quick" and not cls.presets:
            return {}
        near = suggestion(name, cls.presets)
        raise Error(f"{cls.name} has no preset {name!r}{near} ({where}.preset)")

    def check_training(self, cls: type[Probe], given: Mapping[str, Any], where: str) -> None:
        """A training given to a probe that does not train was meant for something."""
        if given and not cls.trains():
            listed = ", ".join(given)
            raise Error(f"{cls.name} does not train, found training ({listed}) ({where}.training)")

    def training(
        self,
        cls: type[Probe],
        preset: Mapping[str, Any],
        own: Mapping[str, Any],
        where: str,
    ) -> Training | None:
        """The preset's recipe, over it the experiment's, over that the probe's own."""
        if not cls.trains():
            return None
        recipe = dict(preset.get("training", {}))
        for given in (self._training(), own):
            recipe.update(_length(given, recipe))
        found: Training = Training.bind(recipe, f"{where}.training")
        return found

    def used(self, components: list[Any], where: str) -> dict[tuple[str, str], Offer]:
        """Datasets and architectures that the probe, or an estimator of it, asks for by name."""
        found = {}
        for component in components:
            for name in _used_names(component):
                kinds = [kind for kind in AXES if self.plugins.has(kind, name)] or ["dataset"]
                for kind in kinds:
                    place = f"{where}: {component.name} uses it"
                    found[kind, name] = self.plugins.find(kind, name, place)
        return found

    def axis(
        self,
        cls: type[Probe],
        kind: str,
        entry: Mapping[str, Any],
        known: dict[str, Choice],
        where: str,
    ) -> tuple[Choice | None, ...]:
        """What a probe is given along one axis: what it selects, or everything it needs."""
        key = f"{kind}s"
        labels = entry.get(key)
        if not cls.takes(kind):
            if labels:
                raise Error(f"{cls.name} takes no {kind}, found {labels!r} ({where}.{key})")
            return (None,)
        if labels is None:
            if kind not in cls.needs:
                return (None,)
            if not known:
                article = "an" if kind == "architecture" else "a"
                raise Error(f"{cls.name} needs {article} {kind}: add [[{key}]] ({where})")
            return tuple(known.values())
        if not isinstance(labels, (list, tuple)) or not labels:
            raise Error(f"{key} must be a list of labels, found {labels!r} ({where}.{key})")
        for label in labels:
            if label not in known:
                near = suggestion(str(label), known)
                raise Error(f"no {kind} has the label {label!r}{near} ({where}.{key})")
        return tuple(known[label] for label in labels)

    def estimators(
        self, cls: type[Probe], preset: Mapping[str, Any], entry: Mapping[str, Any], where: str
    ) -> dict[str, tuple[Choice, ...]]:
        """The estimators of every role of a probe, each with a label of its own."""
        given = self.table(entry.get("estimators", {}), f"{where}.estimators")
        for role in given:
            if role not in cls.roles:
                near = suggestion(role, cls.roles)
                raise Error(f"{cls.name} has no role {role!r}{near} ({where}.estimators)")
        chosen = {}
        for role, default in cls.roles.items():
            several = isinstance(default, (list, tuple))
            value = given.get(role, preset.get(role, default))
            if isinstance(value, (list, tuple)) and not several:
                found = f"found {len(value)} ({where}.estimators.{role})"
                raise Error(f"{cls.name} takes one estimator for {role}, {found}")
            entries = value if isinstance(value, (list, tuple)) else [value]
            fallback = None if several else default
            place = f"{where}.estimators.{role}"
            offers = [self.estimator(role, each, fallback, place) for each in entries]
            chosen[role] = _with_labels(offers)
        return chosen

    def estimator(self, role: str, entry: Any, default: str | None, where: str) -> Choice:
        """One estimator, which must be of the role."""
        if isinstance(entry, str):
            entry = {"name": entry}
        named = {"name": default} if default else {}
        entry = {**named, **self.table(entry, where)}
        offer = self.offer("estimator", entry, where)
        found = role_of(offer.component)
        if found is None or found.name != role:
            has = f"{offer.component.name!r} has the role {found and found.name}"
            raise Error(f"{has}, expected {role}: {', '.join(self._fitting(role))} ({where})")
        options = {key: value for key, value in entry.items() if key != "name"}
        return Choice(offer.component.bind(options, where), offer, offer.component.name)

    def _fitting(self, role: str) -> list[str]:
        names = []
        for offer in self.plugins.offers("estimator"):
            found = role_of(offer.component)
            if found is not None and found.name == role:
                names.append(offer.component.name)
        return names


def _components(estimators: Mapping[str, tuple[Choice, ...]]) -> list[Any]:
    return [choice.component for choice in itertools.chain(*estimators.values())]


def _used_names(component: Any) -> list[str]:
    """What a component says it uses; an option in braces is the name that it holds."""
    names = []
    for name in type(component).uses:
        if name.startswith("{"):
            value = getattr(component, name.strip("{}"))
            name = parse_component(value)["name"] if value else ""
        if name:
            names.append(name)
    return names


def _with_labels(chosen: list[Choice]) -> tuple[Choice, ...]:
    """Each with a label of its own: one that is given twice gets a number, mine and mine-2."""
    seen: collections.Counter[str] = collections.Counter()
    found = []
    for choice in chosen:
        seen[choice.label] += 1
        number = seen[choice.label]
        label = choice.label if number == 1 else f"{choice.label}-{number}"
        found.append(attrs.evolve(choice, label=label))
    return tuple(found)


def _check_one_network(cls: type[Probe], choice: Choice | None, where: str) -> None:
    """A probe over fresh networks has no use for one definite network."""
    if choice is None or not choice.is_one_network or cls.one_network:
        return
    if choice.weights is not None:
        found = f"the weights {choice.weights!r} would not be used"
        raise Error(f"{cls.name} draws fresh networks: {found}; leave them out ({where})")
    kind = type(choice.component.factory).__name__
    cure = "give its class, or a function that makes one"
    raise Error(f"{cls.name} draws fresh networks, found one module ({kind}): {cure} ({where})")


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise Error(f"expected text, found {value!r} ({where})")
    return value


def _existing_file(value: Any, where: str) -> str:
    if isinstance(value, Path):
        value = str(value)
    path = Path(_text(value, where))
    if not path.is_file():
        raise Error(f"there is no file {value!r} ({where})")
    return str(path)


def _length(given: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Training keys as given; a given length, in epochs or steps, replaces the base's other one."""
    other = {"epochs": "steps", "steps": "epochs"}
    found = dict(given)
    for key in given:
        replaced = other.get(key, "")
        if replaced in base and replaced not in given:
            found[replaced] = None
    return found
