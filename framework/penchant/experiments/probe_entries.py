"""The probes of an experiment: what each is measured on, with which estimators and options."""

import collections
import functools
import itertools
from collections.abc import Mapping
from typing import cast

import attrs
from penchant.components.component import Component, Estimator, Probe
from penchant.components.roles import role_of
from penchant.components.taking import AXES, how_taken
from penchant.components.training import Training
from penchant.errors import Error, suggestion
from penchant.experiments.document import TYPED, Document, Table, text_of
from penchant.experiments.jobs import Axis, BoundComponent, BoundProbe
from penchant.experiments.typed_text import parse_component
from penchant.plugins.registry import Registration

_AN = {"architecture": "an architecture", "dataset": "a dataset"}
_OTHER_LENGTH = {"epochs": "steps", "steps": "epochs"}

Known = Mapping[str, BoundComponent[Component]]  # architectures or datasets, by label


@attrs.frozen
class ProbeEntry:
    """A table of `[[probes]]`; errors name its key `where`."""

    document: Document
    table: Table
    where: str

    @functools.cached_property
    def registration(self) -> Registration:
        """The probe that it names."""
        return self.document.registration("probe", self.table, self.where)

    @property
    def cls(self) -> type[Probe]:
        """The probe's class."""
        return cast("type[Probe]", self.registration.component)

    def bound(self, known: Mapping[str, Known]) -> BoundProbe:
        """The probe, its estimators and training, and what of the known it is measured on."""
        name = text_of(self.table.get("preset", "quick"), f"{self.where}.preset")
        preset = self._preset(name)
        arrays = self._arrays_given(preset)
        axes = {kind: self._axis(kind, known[kind], arrays) for kind in AXES}
        own_training = self.document.table(self.table.get("training", {}), f"{self.where}.training")
        training = None if arrays else self._training(preset, own_training)
        for architecture in axes["architecture"]:
            if architecture is not None:
                self._check_takes(architecture, trains=bool(own_training))
        estimators = self._estimators(preset.get("estimators", {}))
        # The entry's own options, and where it gives none the preset's.
        given = {**preset, **self.table}
        component = cast("Probe", self.document.component(self.registration, given, self.where))
        bound = itertools.chain(*estimators.values())
        return BoundProbe(
            component,
            self.registration,
            text_of(self.table.get("label", self.cls.name), f"{self.where}.label"),
            preset=name,
            estimators=estimators,
            training=training,
            trains_further=bool(own_training),
            reduced=self._reduced(),
            used=self._used([component, *[each.component for each in bound]]),
            axes=axes,
            unselected=self._could_name(axes, known),
        )

    def _reduced(self) -> str:
        """What `--quick` changed, where it wrote this entry.

        The user's own entry may have a table there: what `--quick` is to set.
        """
        given = self.table.get("quick", "")
        if isinstance(given, str):
            return given
        self.document.table(given, f"{self.where}.quick")
        return ""

    def _preset(self, name: str) -> Table:
        """The preset of this name."""
        presets = self.cls.presets
        if name in presets:
            return presets[name]
        # A class of the user's own need not declare any.
        if name == "quick" and not presets:
            return {}
        hint = suggestion(name, presets)
        raise Error(f"{self.cls.name} has no preset {name!r}{hint} ({self.where}.preset)")

    def _training(self, preset: Table, own: Table) -> Training | None:
        """The preset's recipe, over it the experiment's, over that the probe's own."""
        where = f"{self.where}.training"
        if not self.cls.trains():
            if own:
                found = f"found training ({', '.join(own)})"
                raise Error(f"{self.cls.name} does not train, {found} ({where})")
            return None
        recipe = dict(preset.get("training", {}))
        for given in (self.document.training(), own):
            # A length in epochs replaces one in steps: both together would be refused.
            for key in given:
                recipe.pop(_OTHER_LENGTH.get(key, ""), None)
            recipe.update(given)
        return Training.bind(recipe, where)

    def _used(self, components: list[Probe | Estimator]) -> dict[tuple[str, str], Registration]:
        """Datasets and architectures that the probe or an estimator uses by name."""
        plugins = self.document.plugins
        used = {}
        for component in components:
            location = f"{self.where}: {component.name} uses it"
            for name in _used_names(component):
                # An unknown name is searched among datasets, so that the message lists them.
                for kind in [kind for kind in AXES if plugins.has(kind, name)] or ["dataset"]:
                    used[kind, name] = plugins.find(kind, name, location)
        return used

    def _arrays_given(self, preset: Table) -> str:
        """The option whose arrays stand for networks and data; empty where there is none."""
        for name in self.cls.instead:
            if self.table.get(name, preset.get(name)) is not None:
                return name
        return ""

    def _axis(self, kind: str, known: Known, arrays: str) -> Axis[Component]:
        """What a probe is given along one axis: what it selects, or everything it needs."""
        cls, key = self.cls, f"{kind}s"
        where = f"{self.where}.{key}"
        labels = self.table.get(key)
        if arrays:
            if labels:
                found = f"found {arrays} and {labels!r} ({where})"
                raise Error(f"{cls.name} takes {arrays} or {_AN[kind]}, {found}")
            return (None,)
        if not cls.has_axis(kind):
            if labels:
                raise Error(f"{cls.name} takes no {kind}, found {labels!r} ({where})")
            return (None,)
        if labels is None:
            return self._unselected(kind, known)
        # An empty list leaves out what the probe merely accepts.
        if kind in cls.accepts and isinstance(labels, (list, tuple)) and not labels:
            return (None,)
        if not isinstance(labels, (list, tuple)) or not labels:
            raise Error(f"{key} must be a list of labels, found {labels!r} ({where})")
        for label in labels:
            if not isinstance(label, str) or label not in known:
                hint = suggestion(str(label), known)
                raise Error(f"no {kind} has the label {label!r}{hint} ({where})")
        return tuple(known[label] for label in labels)

    def _unselected(self, kind: str, known: Known) -> Axis[Component]:
        """Without a selection: everything that a probe needs, or the only one that it accepts."""
        if kind in self.cls.needs:
            if not known:
                raise Error(f"{self.cls.name} needs {self._needed(kind)} ({self.where})")
            return tuple(known.values())
        only = list(known.values())
        # Of several, none is meant more than the others.
        if len(only) != 1 or how_taken(self.cls, only[0].network_kind) == "no":
            return (None,)
        return (only[0],)

    def _could_name(
        self, axes: Mapping[str, Axis[Component]], known: Mapping[str, Known]
    ) -> dict[str, tuple[str, ...]]:
        """The labels that the entry may name along an axis, where it names none and has none."""
        return {
            kind: tuple(known[kind])
            for kind in AXES
            if kind in self.cls.accepts and axes[kind] == (None,) and f"{kind}s" not in self.table
        }

    def _needed(self, kind: str) -> str:
        """The axis that a probe lacks, and how to add it to the file or command."""
        hint = f"add [[{kind}s]]"
        if self.document.where == TYPED:
            hint = f"add -{kind[0]} {kind.upper()}, see `penchant list {kind}s`"
        return f"{_AN[kind]}: {hint}"

    def _estimators(self, preset: Table) -> dict[str, tuple[BoundComponent[Estimator], ...]]:
        """The estimators of every role of a probe, each with a label of its own."""
        roles, where = self.cls.roles, f"{self.where}.estimators"
        given = self.document.table(self.table.get("estimators", {}), where)
        for role in given:
            if role not in roles:
                hint = suggestion(role, roles)
                raise Error(f"{self.cls.name} has no role {role!r}{hint} ({where})")
        estimators = {}
        for role, default in roles.items():
            location = f"{where}.{role}"
            value = given.get(role, preset.get(role, default))
            entries = value if isinstance(value, (list, tuple)) else [value]
            # A default that is text says that the probe takes one estimator.
            if isinstance(default, str) and entries is value:
                count = f"found {len(entries)} ({location})"
                raise Error(f"{self.cls.name} takes one estimator for {role}, {count}")
            bound = [self._estimator(role, each, default, location) for each in entries]
            estimators[role] = _with_labels(bound)
        return estimators

    def _estimator(
        self, role: str, entry: object, default: object, where: str
    ) -> BoundComponent[Estimator]:
        """One estimator, which must be of the role."""
        if isinstance(entry, str):
            entry = parse_component(entry)
        table = self.document.table(entry, where)
        # A table without a name sets options of the default.
        if isinstance(default, str):
            table = {"name": default, **table}
        registration = self.document.registration("estimator", table, where)
        name = registration.component.name
        own = role_of(registration.component)
        if own is None or own.name != role:
            able = {each.name: role_of(each) for each in self.document.plugins.estimators}
            fitting = ", ".join(name for name, of in able.items() if of and of.name == role)
            found = f"{name!r} has the role {own and own.name}"
            raise Error(f"{found}, expected {role}: {fitting} ({where})")
        component = cast("Estimator", self.document.component(registration, table, where))
        return BoundComponent(component, registration, name)

    def _check_takes(self, given: BoundComponent[Component], *, trains: bool) -> None:
        """Refuse networks of a kind that a probe does not take, and name those that take it."""
        cls, kind = self.cls, given.network_kind
        if how_taken(cls, kind) == "no":
            probes = self.document.plugins.probes
            able = ", ".join(each.name for each in probes if how_taken(each, kind) != "no")
            what = "a trajectory" if kind == "trajectory" else f"a {kind} network"
            takers = f"probes that take {what}: {able or 'none'}"
            raise Error(f"{cls.name} {_instead(cls)}{_found(given)}; {takers} ({self.where})")
        if kind == "trajectory" and trains:
            both = f"found a trajectory and a training for {cls.name} ({self.where})"
            raise Error(f"checkpoints of a training are measured as they are, {both}")


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


def _instead(cls: type[Probe]) -> str:
    """What a probe measures."""
    if "trajectory" in cls.takes and "trained" not in cls.takes:
        return "follows a training"
    return "draws fresh networks" if "fresh" in cls.takes else "measures networks of the user's"


def _found(given: BoundComponent[Component]) -> str:
    """The networks that a probe does not take, and a hint."""
    if given.weights is not None:
        return f": the weights {given.weights.given!r} would not be used; leave them out"
    if given.network_kind == "trained":
        name = type(given.component.options()["factory"]).__name__
        return f", found one module ({name}): give its class, or a function that makes one"
    return f", found fresh networks ({given.label}): give it weights"
