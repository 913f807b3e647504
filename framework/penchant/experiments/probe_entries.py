"""The probes of an experiment: what each is measured on, with which estimators and options."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Mapping
from typing import Any, cast

import attrs
from penchant.components.component import Architecture, Estimator, Probe
from penchant.components.roles import role_of
from penchant.components.taking import AXES, how_taken
from penchant.components.training import Training
from penchant.errors import Error, suggestion
from penchant.experiments.document import TYPED, Document, Table, text_of
from penchant.experiments.jobs import BoundComponent, BoundProbe
from penchant.experiments.typed_text import parse_component
from penchant.plugins.discovery import Plugins, Registration

_OTHER_LENGTH = {"epochs": "steps", "steps": "epochs"}
_OF_A_PROBE = "name label preset estimators training architectures datasets".split()


class ProbeEntries:
    """Reads the entries of `[[probes]]`; an error names the key."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.plugins = document.plugins

    def probe(
        self, entry: Table, known: Mapping[str, dict[str, BoundComponent[Any]]], where: str
    ) -> BoundProbe:
        """One probe with everything it was given.

        Args:
            entry: Its table.
            known: The experiment's architectures and datasets, by label.
            where: The file and key of the table, for messages.

        Returns:
            The probe, its estimators and its training, and what it is measured on.
        """
        registration = self.document.registration("probe", entry, where)
        cls = cast("type[Probe]", registration.component)
        preset_name = text_of(entry.get("preset", "quick"), f"{where}.preset")
        preset = self._preset(cls, preset_name, where)
        axes = {kind: self._axis(cls, kind, entry, known[kind], where) for kind in AXES}
        own_training = self.document.table(entry.get("training", {}), f"{where}.training")
        training = self._training(cls, preset, own_training, where)
        for architecture in axes["architecture"]:
            trains = bool(own_training)
            _check_takes(cls, architecture, self.plugins, trains=trains, where=where)
        estimators = self._estimators(cls, preset.get("estimators", {}), entry, where)
        _check_names(cls, entry, where)
        component = cls.bind(_options(entry, preset), where)
        bound = itertools.chain(*estimators.values())
        return BoundProbe(
            component,
            registration,
            text_of(entry.get("label", cls.name), f"{where}.label"),
            preset=preset_name,
            estimators=estimators,
            training=training,
            trains_further=bool(own_training),
            used=self._used([component, *[each.component for each in bound]], where),
            axes=axes,
        )

    def _preset(self, cls: type[Probe], name: str, where: str) -> Table:
        """The preset of this name."""
        if name in cls.presets:
            return cls.presets[name]
        # A class of the user's own need not declare any.
        if name == "quick" and not cls.presets:
            return {}
        hint = suggestion(name, cls.presets)
        raise Error(f"{cls.name} has no preset {name!r}{hint} ({where}.preset)")

    def _training(self, cls: type[Probe], preset: Table, own: Table, where: str) -> Training | None:
        """The preset's recipe, over it the experiment's, over that the probe's own."""
        if not cls.trains():
            if own:
                found = f"found training ({', '.join(own)})"
                raise Error(f"{cls.name} does not train, {found} ({where}.training)")
            return None
        recipe = dict(preset.get("training", {}))
        for given in (self.document.training(), own):
            recipe.update(_length(given, recipe))
        return Training.bind(recipe, f"{where}.training")

    def _used(
        self, components: list[Probe | Estimator], where: str
    ) -> dict[tuple[str, str], Registration]:
        """Datasets and architectures that the probe or an estimator uses by name."""
        used = {}
        for component in components:
            location = f"{where}: {component.name} uses it"
            for name in _used_names(component):
                # An unknown name is searched among datasets, so that the message lists them.
                for kind in [kind for kind in AXES if self.plugins.has(kind, name)] or ["dataset"]:
                    used[kind, name] = self.plugins.find(kind, name, location)
        return used

    def _axis(
        self,
        cls: type[Probe],
        kind: str,
        entry: Table,
        known: dict[str, BoundComponent[Any]],
        where: str,
    ) -> tuple[BoundComponent[Any] | None, ...]:
        """What a probe is given along one axis: what it selects, or everything it needs."""
        key = f"{kind}s"
        location = f"{where}.{key}"
        labels = entry.get(key)
        if not cls.has_axis(kind):
            if labels:
                raise Error(f"{cls.name} takes no {kind}, found {labels!r} ({location})")
            return (None,)
        # Without a selection a probe gets everything it needs, and nothing it merely accepts.
        if labels is None:
            if kind not in cls.needs:
                return (None,)
            if not known:
                raise Error(f"{cls.name} needs {self._needed(kind)} ({where})")
            return tuple(known.values())
        if not isinstance(labels, (list, tuple)) or not labels:
            raise Error(f"{key} must be a list of labels, found {labels!r} ({location})")
        for label in labels:
            if label not in known:
                hint = suggestion(str(label), known)
                raise Error(f"no {kind} has the label {label!r}{hint} ({location})")
        return tuple(known[label] for label in labels)

    def _needed(self, kind: str) -> str:
        """The axis that a probe lacks, and how to add it to the file or command."""
        hint = f"add [[{kind}s]]"
        if self.document.where == TYPED:
            hint = f"add -{kind[0]} {kind.upper()}, see `penchant list {kind}s`"
        return f"{'an' if kind == 'architecture' else 'a'} {kind}: {hint}"

    def _estimators(
        self, cls: type[Probe], preset: Table, entry: Table, where: str
    ) -> dict[str, tuple[BoundComponent[Estimator], ...]]:
        """The estimators of every role of a probe, each with a label of its own."""
        where = f"{where}.estimators"
        given = self.document.table(entry.get("estimators", {}), where)
        for role in given:
            if role not in cls.roles:
                hint = suggestion(role, cls.roles)
                raise Error(f"{cls.name} has no role {role!r}{hint} ({where})")
        estimators = {}
        for role, default in cls.roles.items():
            location = f"{where}.{role}"
            # A default that is a list says that the probe takes several.
            several = not isinstance(default, str)
            value = given.get(role, preset.get(role, default))
            is_list = isinstance(value, (list, tuple))
            if is_list and not several:
                count = f"found {len(value)} ({location})"
                raise Error(f"{cls.name} takes one estimator for {role}, {count}")
            # A table without a name sets options of the default.
            fallback = default if isinstance(default, str) else None
            entries = value if is_list else [value]
            estimators[role] = _with_labels(
                [self._estimator(role, each, fallback, location) for each in entries]
            )
        return estimators

    def _estimator(
        self, role: str, entry: object, default: str | None, where: str
    ) -> BoundComponent[Estimator]:
        """One estimator, which must be of the role."""
        if isinstance(entry, str):
            entry = parse_component(entry)
        entry = self.document.table(entry, where)
        if default:
            entry = {"name": default, **entry}
        registration = self.document.registration("estimator", entry, where)
        name = registration.component.name
        own = role_of(registration.component)
        if own is None or own.name != role:
            able = {each.name: role_of(each) for each in self.plugins.estimators}
            fitting = ", ".join(name for name, of in able.items() if of and of.name == role)
            found = f"{name!r} has the role {own and own.name}"
            raise Error(f"{found}, expected {role}: {fitting} ({where})")
        options = {key: value for key, value in entry.items() if key != "name"}
        component = cast("Estimator", registration.component.bind(options, where))
        return BoundComponent(component, registration, name)


def _options(entry: Table, preset: Table) -> dict[str, Any]:
    """A probe's options: the entry's own, and where it gives none the preset's."""
    own = {name: value for name, value in entry.items() if name not in _OF_A_PROBE}
    rest = {name: value for name, value in preset.items() if name not in _OF_A_PROBE}
    return {**rest, **own}


def _check_names(cls: type[Probe], entry: Table, where: str) -> None:
    """An unknown name may be a misspelt option, or a misspelt table such as `training`."""
    known = {field.name for field in attrs.fields(cls)}.union(_OF_A_PROBE)
    for key in entry:
        if key not in known:
            raise Error(f"{cls.name} has no option {key!r}{suggestion(key, known)} ({where}.{key})")


def _used_names(component: Probe | Estimator) -> list[str]:
    """The names in `uses`; an option in braces stands for its value."""
    names = []
    for name in type(component).uses:
        # "{network}": the option `network` holds text such as "mlp:widths=[64]".
        if name.startswith("{"):
            value = getattr(component, name.strip("{}"))
            name = parse_component(value)["name"] if value else ""
        if name:
            names.append(name)
    return names


def _with_labels(
    estimators: list[BoundComponent[Estimator]],
) -> tuple[BoundComponent[Estimator], ...]:
    """Each with a label of its own: one that is given twice gets a number, mine and mine-2."""
    seen: collections.Counter[str] = collections.Counter()
    labelled = []
    for each in estimators:
        seen[each.label] += 1
        number = seen[each.label]
        label = f"{each.label}-{number}" if number > 1 else each.label
        labelled.append(attrs.evolve(each, label=label))
    return tuple(labelled)


def _check_takes(
    cls: type[Probe],
    given: BoundComponent[Architecture] | None,
    plugins: Plugins,
    *,
    trains: bool,
    where: str,
) -> None:
    """Refuse networks of a kind that a probe does not take, and name those that take it."""
    kind = given.network_kind if given is not None else "fresh"
    if given is None or (kind == "fresh" and "fresh" in cls.takes):
        return
    if how_taken(cls, kind) == "no":
        able = ", ".join(each.name for each in plugins.probes if how_taken(each, kind) != "no")
        what = "a trajectory" if kind == "trajectory" else f"a {kind} network"
        takers = f"probes that take {what}: {able or 'none'}"
        raise Error(f"{cls.name} {_instead(cls)}{_given(given, kind)}; {takers} ({where})")
    if kind == "trajectory" and trains:
        both = f"found a trajectory and a training for {cls.name}"
        raise Error(f"checkpoints of a training are measured as they are, {both} ({where})")


def _instead(cls: type[Probe]) -> str:
    """What a probe measures."""
    if "trajectory" in cls.takes and "trained" not in cls.takes:
        return "follows a training"
    return "draws fresh networks" if "fresh" in cls.takes else "measures networks of the user's"


def _given(given: BoundComponent[Architecture], kind: str) -> str:
    """The networks that a probe does not take, and a hint."""
    if given.weights is not None:
        return f": the weights {given.weights.given!r} would not be used; leave them out"
    if kind == "trained":
        name = type(given.component.options()["factory"]).__name__
        return f", found one module ({name}): give its class, or a function that makes one"
    return f", found fresh networks ({given.label}): give it weights"


def _length(given: Table, base: Table) -> dict[str, Any]:
    """Training keys as given; a given length, in epochs or steps, replaces the base's other one."""
    recipe = dict(given)
    for key in given:
        # Both would be refused, although only one of them is the user's.
        replaced = _OTHER_LENGTH.get(key, "")
        if replaced in base and replaced not in given:
            recipe[replaced] = None
    return recipe
