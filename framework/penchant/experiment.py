"""Experiments: from TOML (or a dict) to validated components, and from those to jobs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from penchant.components import Probe
from penchant.errors import Error, suggestion
from penchant.jobs import Choice, Job, ProbeChoice, Settings, make_job
from penchant.plugins import Offer, Plugins
from penchant.roles import role_of
from penchant.training import Training


@attrs.frozen(eq=False)
class Experiment:
    """A validated experiment."""

    settings: Settings
    probes: tuple[ProbeChoice, ...]
    raw: Mapping[str, Any]

    def jobs(self, device_type: str) -> list[Job]:
        """Every job; those of one dataset are neighbours, because one loaded dataset is kept."""
        jobs = [job for probe in self.probes for job in self._jobs(probe, device_type)]
        datasets = list(dict.fromkeys(job.labels.get("dataset", "") for job in jobs))
        jobs.sort(key=lambda job: datasets.index(job.labels.get("dataset", "")))
        unique = {job.id: job for job in jobs}
        if len(unique) < len(jobs):
            raise Error(
                "two probes of the experiment are the same; give one of them other options or a label"
            )
        return jobs

    def _jobs(self, probe: ProbeChoice, device_type: str) -> Iterator[Job]:
        grid = itertools.product(
            probe.axes["architecture"], probe.axes["dataset"], self.settings.seeds
        )
        for architecture, dataset, seed in grid:
            yield make_job(self.settings, probe, architecture, dataset, seed, device_type)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; a mistake names line and column."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib  # type: ignore[no-redef]
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise Error(f"{path} is not valid TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Error(f"{path} cannot be read: {error}") from None


def build(raw: Mapping[str, Any], plugins: Plugins, where: str = "experiment") -> Experiment:
    """Validate an experiment: nothing runs before everything it names is known and fits."""
    return _Builder(raw, plugins, where).experiment()


class _Builder:
    """Reads one experiment; keeps what every step needs: the plugins and the name of the file for messages."""

    def __init__(self, raw: Mapping[str, Any], plugins: Plugins, where: str) -> None:
        if not isinstance(raw, Mapping):
            raise Error(f"{where} must be a table, found {type(raw).__name__}")
        self.raw, self.plugins, self.where = raw, plugins, where

    def experiment(self) -> Experiment:
        tables = ("architectures", "datasets", "training", "probes")
        known = {field.name for field in attrs.fields(Settings)} | set(tables)
        for key in self.raw:
            if key not in known:
                raise Error(f"unknown key {key!r}{suggestion(key, known)} ({self.where})")
        settings = Settings.bind(
            {key: value for key, value in self.raw.items() if key not in tables}, self.where
        )
        if not settings.seeds:
            raise Error(f"expected at least one seed, found none ({self.where}, seeds)")
        if not 1 <= len(settings.shape) <= 3:
            raise Error(
                f"shape must have one to three dimensions, found {list(settings.shape)} ({self.where}, shape)"
            )
        if len(set(settings.seeds)) < len(settings.seeds):
            raise Error(f"seeds must differ, found {list(settings.seeds)} ({self.where})")
        axes = {kind: self.choices(kind, f"{kind}s") for kind in ("architecture", "dataset")}
        self.table(self.raw.get("training", {}), f"{self.where}, training")
        entries = self.tables("probes")
        if not entries:
            raise Error(f"the experiment has no probe: add [[probes]] with a name ({self.where})")
        probes = [
            self.probe(entry, axes, f"{self.where}, probes[{index}]")
            for index, entry in enumerate(entries)
        ]
        return Experiment(settings, tuple(probes), self.raw)

    def table(self, value: Any, where: str) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise Error(f"expected a table, found {value!r} ({where})")
        return value

    def tables(self, key: str) -> list[Mapping[str, Any]]:
        value = self.raw.get(key, [])
        if not isinstance(value, (list, tuple)):
            raise Error(
                f"{key} must be a list of tables ([[{key}]]), found {type(value).__name__} ({self.where}, {key})"
            )
        return [
            self.table(each, f"{self.where}, {key}[{index}]") for index, each in enumerate(value)
        ]

    def offer(self, kind: str, entry: Mapping[str, Any], where: str) -> Offer:
        if not isinstance(entry.get("name"), str):
            raise Error(
                f"expected a name of an installed {kind}, found {entry.get('name')!r} ({where}.name)"
            )
        return self.plugins.find(kind, entry["name"], f"{where}.name")

    def choices(self, kind: str, key: str) -> dict[str, Choice]:
        found: dict[str, Choice] = {}
        for index, entry in enumerate(self.tables(key)):
            where = f"{self.where}, {key}[{index}]"
            offer = self.offer(kind, entry, where)
            label = _text(entry.get("label", offer.component.name), f"{where}.label")
            if label in found:
                raise Error(
                    f"two {key} are called {label!r}; give each a label of its own ({where})"
                )
            weights = entry.get("weights") if kind == "architecture" else None
            own = ("name", "label", "weights") if kind == "architecture" else ("name", "label")
            options = {name: value for name, value in entry.items() if name not in own}
            component = offer.component.bind(options, where)
            found[label] = Choice(
                component,
                offer,
                label,
                None if weights is None else _text(weights, f"{where}.weights"),
            )
        return found

    def probe(
        self, entry: Mapping[str, Any], axes: Mapping[str, dict[str, Choice]], where: str
    ) -> ProbeChoice:
        offer = self.offer("probe", entry, where)
        cls: Any = offer.component
        preset = _text(entry.get("preset", "quick"), f"{where}.preset")
        if preset not in cls.presets and (preset != "quick" or cls.presets):
            raise Error(
                f"{cls.name} has no preset {preset!r}{suggestion(preset, cls.presets)} ({where}.preset)"
            )
        base = cls.presets.get(preset, {})
        own = ("name", "label", "preset", "estimators", "training", "architectures", "datasets")
        options = {name: value for name, value in entry.items() if name not in own}
        defaults = {
            name: value for name, value in base.items() if name not in ("estimators", "training")
        }
        component = cls.bind({**defaults, **options}, where)
        training = {
            **base.get("training", {}),
            **_length(self.raw.get("training", {}), base.get("training", {})),
        }
        own_training = self.table(entry.get("training", {}), f"{where}.training")
        merged = _length(own_training, training) if own_training else training
        return ProbeChoice(
            component,
            offer,
            _text(entry.get("label", cls.name), f"{where}.label"),
            preset=preset,
            estimators=self.estimators(
                cls, base.get("estimators", {}), entry.get("estimators", {}), where
            ),
            training=Training.bind({**training, **merged}, f"{where}.training")
            if cls.trains()
            else None,
            datasets={
                name: self.plugins.find("dataset", name, f"{where}: {cls.name} uses it")
                for name in cls.uses
            },
            axes={
                kind: self.axis(cls, kind, entry, axes[kind], where)
                for kind in ("architecture", "dataset")
            },
        )

    def axis(
        self,
        cls: type[Probe],
        kind: str,
        entry: Mapping[str, Any],
        known: dict[str, Choice],
        where: str,
    ) -> tuple[Choice | None, ...]:
        key = f"{kind}s"
        labels = entry.get(key)
        if kind not in (*cls.needs, *cls.accepts):
            if labels:
                raise Error(f"{cls.name} takes no {kind}, found {labels!r} ({where}.{key})")
            return (None,)
        if labels is None:
            if kind in cls.needs and not known:
                raise Error(
                    f"{cls.name} needs {'an' if kind[0] == 'a' else 'a'} {kind}: add [[{key}]] ({where})"
                )
            return tuple(known.values()) if kind in cls.needs else (None,)
        if not isinstance(labels, (list, tuple)) or not labels:
            raise Error(f"{key} must be a list of labels, found {labels!r} ({where}.{key})")
        for label in labels:
            if label not in known:
                raise Error(
                    f"no {kind} has the label {label!r}{suggestion(str(label), known)} ({where}.{key})"
                )
        return tuple(known[label] for label in labels)

    def estimators(
        self, cls: type[Probe], preset: Mapping[str, Any], given: Any, where: str
    ) -> dict[str, tuple[Choice, ...]]:
        given = self.table(given, f"{where}.estimators")
        for role in given:
            if role not in cls.roles:
                raise Error(
                    f"{cls.name} has no role {role!r}{suggestion(role, cls.roles)} ({where}.estimators)"
                )
        chosen = {}
        for role, default in cls.roles.items():
            several = isinstance(default, (list, tuple))
            value = given.get(role, preset.get(role, default))
            if isinstance(value, (list, tuple)) and not several:
                raise Error(
                    f"{cls.name} takes one estimator for {role}, found {len(value)} ({where}.estimators.{role})"
                )
            entries = value if isinstance(value, (list, tuple)) else [value]
            fallback = None if several else default
            chosen[role] = tuple(
                self.estimator(role, each, fallback, f"{where}.estimators.{role}")
                for each in entries
            )
        return chosen

    def estimator(self, role: str, entry: Any, default: str | None, where: str) -> Choice:
        if isinstance(entry, str):
            entry = {"name": entry}
        entry = {**({"name": default} if default else {}), **self.table(entry, where)}
        offer = self.offer("estimator", entry, where)
        found = role_of(offer.component)
        if found is None or found.name != role:
            fitting = [
                each.component.name
                for each in self.plugins.offers("estimator")
                if (r := role_of(each.component)) and r.name == role
            ]
            raise Error(
                f"{offer.component.name!r} has the role {found and found.name}, expected {role}: {', '.join(fitting)} ({where})"
            )
        component = offer.component.bind(
            {key: value for key, value in entry.items() if key != "name"}, where
        )
        return Choice(component, offer, offer.component.name)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise Error(f"expected text, found {value!r} ({where})")
    return value


def _length(given: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Training keys as given; a given length, in epochs or steps, replaces the other one of the base."""
    other = {"epochs": "steps", "steps": "epochs"}
    return {
        **given,
        **{
            other[key]: None
            for key in given
            if key in other and other[key] in base and other[key] not in given
        },
    }
