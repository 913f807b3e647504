"""Experiments: from TOML (or a dict) to validated components, and from those to jobs."""

from __future__ import annotations

import collections
import itertools
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from penchant.components.component import AXES, Executor, Probe
from penchant.components.roles import role_of
from penchant.components.training import Training
from penchant.errors import Error, suggestion
from penchant.experiments.jobs import Choice, Job, ProbeChoice, make_job
from penchant.experiments.settings import Settings
from penchant.experiments.typed_text import parse_component
from penchant.plugins.discovery import Offer, Plugins

LARGEST_FILE = 10_000_000  # bytes of an experiment that anybody wrote
TYPED = "command line"  # what messages call an experiment that has no file
_TABLES = ("architectures", "datasets", "training", "probes")
_OTHER_LENGTH = {"epochs": "steps", "steps": "epochs"}
_OF_A_PROBE = "name label preset estimators training architectures datasets".split()


@attrs.frozen(eq=False)
class Experiment:
    """A validated experiment."""

    settings: Settings
    probes: tuple[ProbeChoice, ...]
    raw: Mapping[str, Any]
    executor: Executor | None = None

    def jobs(self, device_type: str, gpu: Mapping[str, str] | None = None) -> list[Job]:
        """Every job; those of one dataset are neighbours, because one loaded dataset is kept.

        Args:
            device_type: cpu or cuda.
            gpu: Which GPU and what drives it, where the device is one.
        """
        jobs: list[Job] = []
        for probe in self.probes:
            cells = self._jobs(probe, device_type, gpu or {})
            jobs.extend(cells)
        # Datasets in the order in which they are first met; the sort keeps the order of the rest.
        order: dict[str, int] = {}
        for job in jobs:
            label = _dataset_label(job)
            order.setdefault(label, len(order))
        jobs.sort(key=lambda job: order[_dataset_label(job)])
        names = {job.id for job in jobs}
        if len(names) < len(jobs):
            cure = "give one of them other options or a label"
            raise Error(f"two probes of the experiment are the same; {cure}")
        return jobs

    def _jobs(
        self,
        probe: ProbeChoice,
        device_type: str,
        gpu: Mapping[str, str],
    ) -> Iterator[Job]:
        # An axis that the probe does not take has the one entry None.
        grid = itertools.product(
            probe.axes["architecture"],
            probe.axes["dataset"],
            self.settings.seeds,
        )
        for architecture, dataset, seed in grid:
            yield make_job(
                self.settings,
                probe,
                architecture,
                dataset,
                seed=seed,
                device_type=device_type,
                gpu=gpu,
            )


def _dataset_label(job: Job) -> str:
    label: str = job.labels.get("dataset", "")
    return label


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; a mistake names line and column."""
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise Error(f"{path} has {size} bytes, expected at most {LARGEST_FILE}")
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text)
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
    builder = _Builder(raw, plugins, where)
    return builder.experiment()


class _Builder:
    """Reads one experiment; keeps what every step needs: the plugins and the name of the file."""

    def __init__(self, raw: Mapping[str, Any], plugins: Plugins, where: str) -> None:
        if not isinstance(raw, Mapping):
            found = type(raw).__name__
            raise Error(f"{where} must be a table, found {found}")
        self.raw = raw
        self.plugins = plugins
        self.where = where

    def experiment(self) -> Experiment:
        """Everything, in the order in which a reader would check it."""
        settings = self.settings()
        known = {axis: self.choices(axis) for axis in AXES}
        # Also where no probe trains: a mistake in it is told before anything runs.
        training = self._training()
        Training.bind(training, f"{self.where}, training")
        entries = self.tables("probes")
        if not entries:
            raise Error(f"the experiment has no probe: add [[probes]] with a name ({self.where})")
        probes = []
        # Each is given what it selects of these, or what it needs.
        for index, entry in enumerate(entries):
            place = f"{self.where}, probes[{index}]"
            probe = self.probe(entry, known, place)
            probes.append(probe)
        self.check_used(known, probes)
        executor = self.executor()
        return Experiment(settings, tuple(probes), self.raw, executor)

    def settings(self) -> Settings:
        """What holds for the whole experiment."""
        fields = {field.name for field in attrs.fields(Settings)}
        known = fields | set(_TABLES)
        own = {}
        # Whatever stands at the top and is no table is a setting.
        for key, value in self.raw.items():
            if key not in known:
                near = suggestion(key, known)
                raise Error(f"unknown key {key!r}{near} ({self.where})")
            if key not in _TABLES:
                own[key] = value
        # The executor's name is a setting; its options are its own.
        executor = self.executor()
        own["executor"] = executor and executor.name
        settings: Settings = Settings.bind(own, self.where)
        self.check_settings(settings)
        return settings

    def check_settings(self, settings: Settings) -> None:
        """What no single option's bounds can say."""
        seeds = list(settings.seeds)
        if not seeds:
            raise Error(f"expected at least one seed, found none ({self.where}, seeds)")
        if len(set(seeds)) < len(seeds):
            raise Error(f"seeds must differ, found {seeds} ({self.where})")
        shape = list(settings.shape)
        if not 1 <= len(shape) <= 3:
            found = f"found {shape} ({self.where}, shape)"
            raise Error(f"shape must have one to three dimensions, {found}")

    def executor(self) -> Executor | None:
        """The executor: a name, `ray:address=auto`, or a table with a name and options."""
        given = self.raw.get("executor")
        if given is None:
            return None
        where = f"{self.where}, executor"
        if isinstance(given, str):
            given = parse_component(given)
        entry = self.table(given, where)
        offer = self.offer("executor", entry, where)
        # Everything else in the table is an option.
        options = dict(entry)
        del options["name"]
        found: Executor = offer.component.bind(options, where)
        return found

    def check_used(self, known: Mapping[str, dict[str, Choice]], probes: list[Any]) -> None:
        """An architecture or dataset that no probe takes was meant for something."""
        for axis in AXES:
            taken: set[str] = set()
            for probe in probes:
                given = [choice for choice in probe.axes[axis] if choice is not None]
                taken.update(choice.label for choice in given)
            unused = [label for label in known[axis] if label not in taken]
            if not unused:
                continue
            # The first of them is told, and who could take it.
            label = unused[0]
            able = [probe.label for probe in probes if type(probe.component).takes(axis)]
            cure = f"none of the probes takes a {axis}"
            if able:
                selected = f"{axis}s = [{label!r}]"
                cure = f"{able[0]} takes it only when selected: {selected}"
            place = f"{self.where}, {axis}s"
            raise Error(f"no probe uses the {axis} {label!r}; {cure} ({place})")

    def _training(self) -> Mapping[str, Any]:
        given = self.raw.get("training", {})
        return self.table(given, f"{self.where}, training")

    def table(self, value: Any, where: str) -> Mapping[str, Any]:
        """A table, or an Error."""
        if not isinstance(value, Mapping):
            raise Error(f"expected a table, found {value!r} ({where})")
        return value

    def tables(self, key: str) -> list[Mapping[str, Any]]:
        """A list of tables, or an Error."""
        value = self.raw.get(key, [])
        where = f"{self.where}, {key}"
        if not isinstance(value, (list, tuple)):
            kind = type(value).__name__
            expected = f"{key} must be a list of tables ([[{key}]])"
            raise Error(f"{expected}, found {kind} ({where})")
        found = []
        for index, each in enumerate(value):
            place = f"{where}[{index}]"
            table = self.table(each, place)
            found.append(table)
        return found

    def offer(self, kind: str, entry: Mapping[str, Any], where: str) -> Offer:
        """The component that an entry names."""
        name = entry.get("name")
        place = f"{where}.name"
        if not isinstance(name, str):
            expected = f"expected a name of an installed {kind}"
            raise Error(f"{expected}, found {name!r} ({place})")
        return self.plugins.find(kind, name, place)

    def choices(self, kind: str) -> dict[str, Choice]:
        """The architectures or datasets of the experiment, by label."""
        found: dict[str, Choice] = {}
        own = ["name", "label"]
        if kind == "architecture":
            own.append("weights")
        tables = self.tables(f"{kind}s")
        for index, entry in enumerate(tables):
            where = f"{self.where}, {kind}s[{index}]"
            offer = self.offer(kind, entry, where)
            # Probes select it, and results call it, by its label.
            given = entry.get("label", offer.component.name)
            label = _text(given, f"{where}.label")
            if label in found:
                cure = "give each a label of its own"
                raise Error(f"two {kind}s are called {label!r}; {cure} ({where})")
            weights = entry.get("weights") if "weights" in own else None
            if weights is not None:
                weights = _existing_file(weights, f"{where}.weights")
            # Everything else in the table is an option of the component.
            options = {name: value for name, value in entry.items() if name not in own}
            component = offer.component.bind(options, where)
            found[label] = Choice(component, offer, label, weights)
        return found

    def probe(
        self,
        entry: Mapping[str, Any],
        known: Mapping[str, dict[str, Choice]],
        where: str,
    ) -> ProbeChoice:
        """One probe with everything it was given."""
        offer = self.offer("probe", entry, where)
        cls: Any = offer.component
        preset = self.preset(cls, entry, where)
        # What it is measured on, and how networks are trained for it.
        axes = {kind: self.axis(cls, kind, entry, known[kind], where) for kind in AXES}
        given = entry.get("training", {})
        own_training = self.table(given, f"{where}.training")
        self.check_training(cls, own_training, where)
        for architecture in axes["architecture"]:
            _check_one_network(cls, architecture, where)
        # What it is: estimators, options, and what results call it.
        preferred = preset.get("estimators", {})
        estimators = self.estimators(cls, preferred, entry, where)
        _check_names(cls, entry, where)
        options = _options(entry, preset)
        component = cls.bind(options, where)
        label = _text(entry.get("label", cls.name), f"{where}.label")
        preset_name = _text(entry.get("preset", "quick"), f"{where}.preset")
        training = self.training(cls, preset, own_training, where)
        asking = [component, *_components(estimators)]
        used = self.used(asking, where)
        return ProbeChoice(
            component,
            offer,
            label,
            preset=preset_name,
            estimators=estimators,
            training=training,
            trains_further=bool(own_training),
            used=used,
            axes=axes,
        )

    def preset(self, cls: type[Probe], entry: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        """The preset that an entry names; `quick` where it names none."""
        place = f"{where}.preset"
        given = entry.get("preset", "quick")
        name = _text(given, place)
        if name in cls.presets:
            return cls.presets[name]
        # A class of the user's own need not declare any.
        if name == "quick" and not cls.presets:
            return {}
        near = suggestion(name, cls.presets)
        raise Error(f"{cls.name} has no preset {name!r}{near} ({place})")

    def check_training(self, cls: type[Probe], given: Mapping[str, Any], where: str) -> None:
        """A training given to a probe that does not train was meant for something."""
        if not given or cls.trains():
            return
        listed = ", ".join(given)
        found = f"found training ({listed})"
        raise Error(f"{cls.name} does not train, {found} ({where}.training)")

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
            place = f"{where}: {component.name} uses it"
            for name in _used_names(component):
                kinds = [kind for kind in AXES if self.plugins.has(kind, name)]
                # An unknown name is looked for among datasets, so that the message lists them.
                for kind in kinds or ["dataset"]:
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
        place = f"{where}.{key}"
        labels = entry.get(key)
        if not cls.takes(kind):
            if labels:
                raise Error(f"{cls.name} takes no {kind}, found {labels!r} ({place})")
            return (None,)
        # Without a selection a probe gets everything it needs, and nothing it merely accepts.
        if labels is None:
            if kind not in cls.needs:
                return (None,)
            if not known:
                needed = self._needed(kind)
                raise Error(f"{cls.name} needs {needed} ({where})")
            return tuple(known.values())
        if not isinstance(labels, (list, tuple)) or not labels:
            raise Error(f"{key} must be a list of labels, found {labels!r} ({place})")
        # What it selects, in the order of the selection.
        found = []
        for label in labels:
            if label not in known:
                near = suggestion(str(label), known)
                raise Error(f"no {kind} has the label {label!r}{near} ({place})")
            found.append(known[label])
        return tuple(found)

    def _needed(self, kind: str) -> str:
        """What a probe lacks along an axis, and how to give it: in a file, or as it is typed."""
        key = f"{kind}s"
        article = "an" if kind == "architecture" else "a"
        cure = f"add [[{key}]]"
        if self.where == TYPED:
            cure = f"add -{kind[0]} {kind.upper()}, see `penchant list {key}`"
        return f"{article} {kind}: {cure}"

    def estimators(
        self,
        cls: type[Probe],
        preset: Mapping[str, Any],
        entry: Mapping[str, Any],
        where: str,
    ) -> dict[str, tuple[Choice, ...]]:
        """The estimators of every role of a probe, each with a label of its own."""
        where = f"{where}.estimators"
        table = entry.get("estimators", {})
        given = self.table(table, where)
        for role in given:
            if role not in cls.roles:
                near = suggestion(role, cls.roles)
                raise Error(f"{cls.name} has no role {role!r}{near} ({where})")
        chosen = {}
        for role, default in cls.roles.items():
            place = f"{where}.{role}"
            # A default that is a list says that the probe takes several.
            several = isinstance(default, (list, tuple))
            preferred = preset.get(role, default)
            value = given.get(role, preferred)
            is_list = isinstance(value, (list, tuple))
            if is_list and not several:
                found = f"found {len(value)} ({place})"
                raise Error(f"{cls.name} takes one estimator for {role}, {found}")
            entries = value if is_list else [value]
            # A table without a name sets options of the default.
            fallback = None if several else default
            choices = [self.estimator(role, each, fallback, place) for each in entries]
            chosen[role] = _with_labels(choices)
        return chosen

    def estimator(self, role: str, entry: Any, default: str | None, where: str) -> Choice:
        """One estimator, which must be of the role."""
        if isinstance(entry, str):
            entry = {"name": entry}
        entry = self.table(entry, where)
        if default:
            entry = {"name": default, **entry}
        offer = self.offer("estimator", entry, where)
        name = offer.component.name
        found = role_of(offer.component)
        if found is None or found.name != role:
            other = found and found.name
            fitting = ", ".join(self._fitting(role))
            expected = f"expected {role}: {fitting}"
            raise Error(f"{name!r} has the role {other}, {expected} ({where})")
        options = dict(entry)
        del options["name"]
        component = offer.component.bind(options, where)
        return Choice(component, offer, name)

    def _fitting(self, role: str) -> list[str]:
        names = []
        for offer in self.plugins.offers("estimator"):
            found = role_of(offer.component)
            if found is not None and found.name == role:
                names.append(offer.component.name)
        return names


def _options(entry: Mapping[str, Any], preset: Mapping[str, Any]) -> dict[str, Any]:
    """A probe's options: the entry's own, and where it gives none the preset's."""
    options = {name: value for name, value in entry.items() if name not in _OF_A_PROBE}
    for name, value in preset.items():
        # These two are tables of their own.
        if name not in ("estimators", "training"):
            options.setdefault(name, value)
    return options


def _check_names(cls: type[Probe], entry: Mapping[str, Any], where: str) -> None:
    """An unknown name may be a misspelt option, or a misspelt table such as `training`."""
    options = {field.name for field in attrs.fields(cls)}
    known = options.union(_OF_A_PROBE)
    unknown = [key for key in entry if key not in known]
    if not unknown:
        return
    key = unknown[0]
    near = suggestion(key, known)
    raise Error(f"{cls.name} has no option {key!r}{near} ({where}.{key})")


def _components(estimators: Mapping[str, tuple[Choice, ...]]) -> list[Any]:
    found: list[Any] = []
    for chosen in estimators.values():
        for choice in chosen:
            found.append(choice.component)
    return found


def _used_names(component: Any) -> list[str]:
    """What a component says it uses; an option in braces is the name that it holds."""
    names = []
    for name in type(component).uses:
        # "{network}": the option `network` holds text such as "mlp:widths=[64]".
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
        label = choice.label
        seen[label] += 1
        number = seen[label]
        if number > 1:
            label = f"{label}-{number}"
        labelled = attrs.evolve(choice, label=label)
        found.append(labelled)
    return tuple(found)


def _check_one_network(cls: type[Probe], choice: Choice | None, where: str) -> None:
    """A probe over fresh networks has no use for one definite network."""
    if choice is None or not choice.is_one_network or cls.one_network:
        return
    # Silently drawing others instead would answer another question.
    if choice.weights is not None:
        found = f"the weights {choice.weights!r} would not be used"
        raise Error(f"{cls.name} draws fresh networks: {found}; leave them out ({where})")
    kind = type(choice.component.factory).__name__
    found = f"found one module ({kind})"
    cure = "give its class, or a function that makes one"
    raise Error(f"{cls.name} draws fresh networks, {found}: {cure} ({where})")


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise Error(f"expected text, found {value!r} ({where})")
    return value


def _existing_file(value: Any, where: str) -> str:
    if isinstance(value, Path):
        value = str(value)
    text = _text(value, where)
    path = Path(text)
    if not path.is_file():
        raise Error(f"there is no file {value!r} ({where})")
    return str(path)


def _length(given: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Training keys as given; a given length, in epochs or steps, replaces the base's other one."""
    found = dict(given)
    for key in given:
        # Both would be refused, although only one of them is the user's.
        replaced = _OTHER_LENGTH.get(key, "")
        if replaced in base and replaced not in given:
            found[replaced] = None
    return found
