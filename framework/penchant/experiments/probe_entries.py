"""The probes of an experiment: what each is measured on, with which estimators and options."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Mapping
from typing import Any, cast

import attrs
from penchant.components.component import Probe
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
    """Reads the entries of `[[probes]]`; a mistake in one names its place in the document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.plugins = document.plugins

    def probe(
        self, entry: Table, known: Mapping[str, dict[str, BoundComponent]], where: str
    ) -> BoundProbe:
        """One probe with everything it was given.

        Args:
            entry: Its table.
            known: The experiment's architectures and datasets, by label.
            where: The place of the table, for messages.

        Returns:
            The probe, its estimators and its training, and what it is measured on.
        """
        registration = self.document.registration("probe", entry, where)
        cls = cast("type[Probe]", registration.component)
        preset = self._preset(cls, entry, where)
        # What it is measured on, and how networks are trained for it.
        axes = {kind: self._axis(cls, kind, entry, known[kind], where) for kind in AXES}
        own_training = self.document.table(entry.get("training", {}), f"{where}.training")
        self._check_training(cls, own_training, where)
        for architecture in axes["architecture"]:
            trains = bool(own_training)
            _check_takes(cls, architecture, self.plugins, trains=trains, where=where)
        # What it is: estimators, options, and what results call it.
        estimators = self._estimators(cls, preset.get("estimators", {}), entry, where)
        _check_names(cls, entry, where)
        component = cls.bind(_options(entry, preset), where)
        chosen = itertools.chain(*estimators.values())
        return BoundProbe(
            component,
            registration,
            text_of(entry.get("label", cls.name), f"{where}.label"),
            preset=text_of(entry.get("preset", "quick"), f"{where}.preset"),
            estimators=estimators,
            training=self._training(cls, preset, own_training, where),
            trains_further=bool(own_training),
            used=self._used([component, *[each.component for each in chosen]], where),
            axes=axes,
        )

    def _preset(self, cls: type[Probe], entry: Table, where: str) -> Table:
        """The preset that an entry names; `quick` where it names none."""
        place = f"{where}.preset"
        name = text_of(entry.get("preset", "quick"), place)
        if name in cls.presets:
            return cls.presets[name]
        # A class of the user's own need not declare any.
        if name == "quick" and not cls.presets:
            return {}
        near = suggestion(name, cls.presets)
        raise Error(f"{cls.name} has no preset {name!r}{near} ({place})")

    def _check_training(self, cls: type[Probe], given: Table, where: str) -> None:
        """A training given to a probe that does not train was meant for something."""
        if not given or cls.trains():
            return
        listed = ", ".join(given)
        found = f"found training ({listed})"
        raise Error(f"{cls.name} does not train, {found} ({where}.training)")

    def _training(self, cls: type[Probe], preset: Table, own: Table, where: str) -> Training | None:
        """The preset's recipe, over it the experiment's, over that the probe's own."""
        if not cls.trains():
            return None
        recipe = dict(preset.get("training", {}))
        for given in (self.document.training(), own):
            recipe.update(_length(given, recipe))
        return Training.bind(recipe, f"{where}.training")

    def _used(self, components: list[Any], where: str) -> dict[tuple[str, str], Registration]:
        """Datasets and architectures that the probe, or an estimator of it, asks for by name."""
        found = {}
        for component in components:
            place = f"{where}: {component.name} uses it"
            for name in _used_names(component):
                # An unknown name is looked for among datasets, so that the message lists them.
                for kind in [kind for kind in AXES if self.plugins.has(kind, name)] or ["dataset"]:
                    found[kind, name] = self.plugins.find(kind, name, place)
        return found

    def _axis(
        self,
        cls: type[Probe],
        kind: str,
        entry: Table,
        known: dict[str, BoundComponent],
        where: str,
    ) -> tuple[BoundComponent | None, ...]:
        """What a probe is given along one axis: what it selects, or everything it needs."""
        key = f"{kind}s"
        place = f"{where}.{key}"
        labels = entry.get(key)
        if not cls.has_axis(kind):
            if labels:
                raise Error(f"{cls.name} takes no {kind}, found {labels!r} ({place})")
            return (None,)
        # Without a selection a probe gets everything it needs, and nothing it merely accepts.
        if labels is None:
            if kind not in cls.needs:
                return (None,)
            if not known:
                raise Error(f"{cls.name} needs {self._needed(kind)} ({where})")
            return tuple(known.values())
        if not isinstance(labels, (list, tuple)) or not labels:
            raise Error(f"{key} must be a list of labels, found {labels!r} ({place})")
        for label in labels:
            if label not in known:
                near = suggestion(str(label), known)
                raise Error(f"no {kind} has the label {label!r}{near} ({place})")
        return tuple(known[label] for label in labels)

    def _needed(self, kind: str) -> str:
        """What a probe lacks along an axis, and how to give it: in a file, or as it is typed."""
        cure = f"add [[{kind}s]]"
        if self.document.where == TYPED:
            cure = f"add -{kind[0]} {kind.upper()}, see `penchant list {kind}s`"
        return f"{'an' if kind == 'architecture' else 'a'} {kind}: {cure}"

    def _estimators(
        self, cls: type[Probe], preset: Table, entry: Table, where: str
    ) -> dict[str, tuple[BoundComponent, ...]]:
        """The estimators of every role of a probe, each with a label of its own."""
        where = f"{where}.estimators"
        given = self.document.table(entry.get("estimators", {}), where)
        for role in given:
            if role not in cls.roles:
                near = suggestion(role, cls.roles)
                raise Error(f"{cls.name} has no role {role!r}{near} ({where})")
        chosen = {}
        for role, default in cls.roles.items():
            place = f"{where}.{role}"
            # A default that is a list says that the probe takes several.
            several = isinstance(default, (list, tuple))
            value = given.get(role, preset.get(role, default))
            is_list = isinstance(value, (list, tuple))
            if is_list and not several:
                found = f"found {len(value)} ({place})"
                raise Error(f"{cls.name} takes one estimator for {role}, {found}")
            # A table without a name sets options of the default.
            fallback = None if several else default
            entries = value if is_list else [value]
            chosen[role] = _with_labels(
                [self._estimator(role, each, fallback, place) for each in entries]
            )
        return chosen

    def _estimator(
        self, role: str, entry: object, default: str | None, where: str
    ) -> BoundComponent:
        """One estimator, which must be of the role."""
        if isinstance(entry, str):
            entry = parse_component(entry)
        entry = self.document.table(entry, where)
        if default:
            entry = {"name": default, **entry}
        registration = self.document.registration("estimator", entry, where)
        name = registration.component.name
        found = role_of(registration.component)
        if found is None or found.name != role:
            other = found and found.name
            components = [each.component for each in self.plugins.registrations("estimator")]
            same = [each for each in components if (own := role_of(each)) and own.name == role]
            fitting = ", ".join(each.name for each in same)
            raise Error(f"{name!r} has the role {other}, expected {role}: {fitting} ({where})")
        options = {key: value for key, value in entry.items() if key != "name"}
        return BoundComponent(registration.component.bind(options, where), registration, name)


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


def _with_labels(chosen: list[BoundComponent]) -> tuple[BoundComponent, ...]:
    """Each with a label of its own: one that is given twice gets a number, mine and mine-2."""
    seen: collections.Counter[str] = collections.Counter()
    found = []
    for choice in chosen:
        seen[choice.label] += 1
        number = seen[choice.label]
        label = f"{choice.label}-{number}" if number > 1 else choice.label
        found.append(attrs.evolve(choice, label=label))
    return tuple(found)


def _check_takes(
    cls: type[Probe], choice: BoundComponent | None, plugins: Plugins, *, trains: bool, where: str
) -> None:
    """Refuse networks of a kind that a probe does not take, and name those that take it."""
    kind = choice.network_kind if choice is not None else "fresh"
    if choice is None or (kind == "fresh" and "fresh" in cls.takes):
        return
    if how_taken(cls, kind) == "no":
        # Silently drawing others instead would answer another question.
        others = [
            cast("type[Probe]", registration.component)
            for registration in plugins.registrations("probe")
        ]
        able = ", ".join(each.name for each in others if how_taken(each, kind) != "no")
        what = "a trajectory" if kind == "trajectory" else f"a {kind} network"
        takers = f"probes that take {what}: {able or 'none'}"
        raise Error(f"{cls.name} {_instead(cls)}{_found(choice, kind)}; {takers} ({where})")
    if kind == "trajectory" and trains:
        found = f"found a trajectory and a training for {cls.name}"
        raise Error(f"checkpoints of a training are measured as they are, {found} ({where})")


def _instead(cls: type[Probe]) -> str:
    """What a probe measures."""
    if "trajectory" in cls.takes and "trained" not in cls.takes:
        return "follows a training"
    return "draws fresh networks" if "fresh" in cls.takes else "measures networks of the user's"


def _found(choice: BoundComponent, kind: str) -> str:
    """What was given, and what may be given instead."""
    if choice.weights is not None:
        given = choice.weights.given
        return f": the weights {given!r} would not be used; leave them out"
    if kind == "trained":
        name = type(choice.component.factory).__name__
        return f", found one module ({name}): give its class, or a function that makes one"
    return f", found networks to be drawn ({choice.label}): give it weights"


def _length(given: Table, base: Table) -> dict[str, Any]:
    """Training keys as given; a given length, in epochs or steps, replaces the base's other one."""
    found = dict(given)
    for key in given:
        # Both would be refused, although only one of them is the user's.
        replaced = _OTHER_LENGTH.get(key, "")
        if replaced in base and replaced not in given:
            found[replaced] = None
    return found
