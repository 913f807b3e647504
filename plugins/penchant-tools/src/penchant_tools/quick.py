"""`--quick`: the same questions with each probe's preset `quick`, and at most two seeds.

Of what the file and the preset it names say of a probe, choices stay (text, true and false, names
of estimators) and numbers go: a size of the file beside the small sizes of the preset would ask for
direction 1023 of 1000. Architectures and datasets stay as they are; trainings are those of the
presets, with the file's loss, or none where the file has none.

Entries that would become one and the same measurement keep what tells them apart, numbers included.
Where that is too large, or does not fit the preset, the file says in its table `quick` of the entry
what is set instead. What is not as in the file is named, entry by entry.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from penchant.components.component import Component, Estimator
from penchant.components.taking import AXES
from penchant.components.training import Training
from penchant.errors import Error
from penchant.experiments.experiment import build
from penchant.experiments.identity import plain
from penchant.experiments.jobs import BoundComponent, BoundProbe
from penchant.plugins.discovery import Plugins

SEEDS = 2
_SELECTION = ("name", "label", "architectures", "datasets")
_TABLES = ("training", "estimators")  # of a probe, beside its own options

Options = dict[str, Any]  # of a probe, its training and its estimators, by dotted name


def quick_form(
    raw: Mapping[str, Any], plugins: Plugins, where: str = "experiment"
) -> dict[str, Any]:
    """The reduced form of an experiment.

    Args:
        raw: The tables of an experiment, which must be valid.
        plugins: Where its components are searched.
        where: The name of the file, for messages.

    Returns:
        The tables of another experiment, which says of itself that it is reduced, and of each probe
        (`quick`) what of it is not as in the file.

    Raises:
        Error: Two entries would be one measurement, and nothing that fits tells them apart.
    """
    experiment = build(raw, plugins, where)
    settings = experiment.settings
    full = experiment.probes
    entries = [_probe(entry, probe) for entry, probe in zip(raw["probes"], full, strict=True)]
    quick = {
        **raw,
        "title": f"{settings.title or where} (quick)",
        "quick": True,
        "seeds": list(settings.seeds[:SEEDS]),
        "probes": entries,
    }
    quick.pop("training", None)
    reduced = build(quick, plugins, where).probes
    for group in _equal(reduced):
        for number in group:
            entries[number] = _told_apart(entries[number], number, group, full, reduced)
    reduced = _checked(quick, plugins, where)
    for entry, before, after in zip(entries, full, reduced, strict=True):
        entry["quick"] = changes(before, after)
    return quick


def changes(full: BoundProbe, reduced: BoundProbe) -> str:
    """What a reduced entry has not as the file says, in words; empty where nothing differs.

    Args:
        full: The entry of the file.
        reduced: That of its quick form.

    Returns:
        Text such as "networks 10000 -> 200, training.epochs 20 -> 2".
    """
    before, after = _options(full), _options(reduced)
    differing = []
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            differing.append(f"{name} {_shown(before.get(name))} -> {_shown(after.get(name))}")
    return ", ".join(differing)


def _shown(value: Any) -> str:
    """A value on one line; of a long list its length."""
    if isinstance(value, list) and len(value) > 8:
        return f"[{len(value)} values]"
    return "none" if value is None else str(value)


def _probe(entry: Mapping[str, Any], probe: BoundProbe) -> dict[str, Any]:
    """The entry of a probe with its preset `quick`, its choices and its estimators."""
    cls = type(probe.component)
    found = {name: entry[name] for name in _SELECTION if name in entry}
    preset: Mapping[str, Any] = cls.presets.get("quick", {})
    if cls.presets:
        found["preset"] = "quick"
    own: Mapping[str, Any] = entry.get("quick", {})
    choices = _choices(probe.component)
    # those of the file and of its preset, else those of the file alone, else none
    for kept in (choices, {name: choices[name] for name in choices if name in entry}):
        if _fits(cls, {**_of_probe(preset), **kept, **_of_probe(own)}):
            found.update(kept)
            break
    sizes = preset.get("estimators", {})
    estimators = {
        role: _tables(chosen, sizes.get(role, [])) for role, chosen in probe.estimators.items()
    }
    if estimators:
        found["estimators"] = estimators
    training = _training_choices(probe, preset.get("training", {}))
    if training:
        found["training"] = training
    return {**found, **own}


def _choices(component: Component) -> dict[str, Any]:
    """Options that are text, true or false, or lists of text."""
    options = component.options()
    return {name: value for name, value in options.items() if _is_choice(value)}


def _is_choice(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(each, str) for each in value)
    return isinstance(value, (str, bool))


def _equal(probes: Sequence[BoundProbe]) -> list[list[int]]:
    """Groups of entries of which at least two would be one measurement."""
    groups: dict[str, list[int]] = {}
    for number, probe in enumerate(probes):
        groups.setdefault(f"{probe.component.name} {_options(probe)}", []).append(number)
    return [group for group in groups.values() if _overlap([probes[each] for each in group])]


def _overlap(probes: Sequence[BoundProbe]) -> bool:
    """Do two of these entries share an architecture and a dataset?"""
    for one, other in itertools.combinations(probes, 2):
        if all(_labels(one, axis) & _labels(other, axis) for axis in AXES):
            return True
    return False


def _labels(probe: BoundProbe, axis: str) -> set[str]:
    """What an entry is measured on along an axis; one name where that is nothing."""
    return {"" if bound is None else bound.label for bound in probe.axes[axis]}


def _told_apart(
    entry: dict[str, Any],
    number: int,
    group: Sequence[int],
    full: Sequence[BoundProbe],
    reduced: Sequence[BoundProbe],
) -> dict[str, Any]:
    """An entry with the options in which it differs, in the file, from the others of its group."""
    others = [_options(full[each]) for each in group]
    own, now = _options(full[number]), _options(reduced[number])
    entry = dict(entry)
    for name, value in own.items():
        same = all(each.get(name) == value for each in others)
        if same or value is None or value == now.get(name):
            continue
        table, _, key = name.partition(".")
        if not key:
            entry[name] = full[number].component.options()[name]
        elif table == "training":
            if _trains(full[number]):
                entry["training"] = {**entry.get("training", {}), key: value}
        else:
            entry["estimators"] = _full_estimators(full[number])
    return entry


def _trains(probe: BoundProbe) -> bool:
    """Does it train? A training of its own would train a network of the user's further."""
    kinds = {bound.network_kind for bound in probe.axes["architecture"] if bound is not None}
    return probe.trains_further or kinds <= {"fresh"}


def _full_estimators(probe: BoundProbe) -> dict[str, Any]:
    """All estimators of an entry with all their options."""
    tables: dict[str, Any] = {}
    for role, chosen in probe.estimators.items():
        entries = []
        for each in chosen:
            options = each.component.options()
            given = {name: value for name, value in options.items() if value is not None}
            entries.append({"name": each.component.name, **given})
        tables[role] = entries[0] if len(entries) == 1 else entries
    return tables


def _checked(quick: Mapping[str, Any], plugins: Plugins, where: str) -> tuple[BoundProbe, ...]:
    """The reduced probes, every two of which are two measurements."""
    hint = "say in the file what --quick sets instead, such as quick = { samples = 100 }"
    try:
        reduced = build(quick, plugins, where).probes
    except Error as error:
        raise Error(
            f"entries that only numbers tell apart keep them in --quick, and they do not fit the "
            f"quick preset: {error}; {hint}"
        ) from None
    for group in _equal(reduced):
        labels = ", ".join(repr(reduced[number].label) for number in group)
        raise Error(
            f"in --quick {labels} would be one and the same measurement; leave out all but one of "
            f"them, or {hint} ({where}, probes[{group[0]}])"
        )
    return reduced


def _options(probe: BoundProbe) -> Options:
    """Every option of a probe, of its training and of its estimators, as results record them."""
    options: Options = plain(dict(probe.component.options()))
    if probe.training is not None:
        for name, value in plain(probe.training.options()).items():
            options[f"training.{name}"] = value
    for role, chosen in probe.estimators.items():
        options[f"estimators.{role}"] = [each.component.name for each in chosen]
        for each in chosen:
            for name, value in plain(each.component.options()).items():
                options[f"estimators.{each.label}.{name}"] = value
    return options


def _of_probe(preset: Mapping[str, Any]) -> dict[str, Any]:
    """What a preset, or a table `quick`, says of the probe itself."""
    return {name: value for name, value in preset.items() if name not in _TABLES}


def _fits(cls: Any, options: Mapping[str, Any]) -> bool:
    """Can a choice be had with the numbers of the quick preset?"""
    try:
        cls.bind(options)
    except Error:
        return False
    return True


def _tables(chosen: Sequence[BoundComponent[Estimator]], preset: Any) -> Any:
    """Estimators with their choices and the sizes that the preset `quick` has for them.

    A list where the probe takes several.
    """
    entries = preset if isinstance(preset, (list, tuple)) else [preset]
    sizes = {each["name"]: each for each in entries if isinstance(each, Mapping) and "name" in each}
    tables = []
    for each in chosen:
        name = each.registration.component.name
        own = {key: value for key, value in sizes.get(name, {}).items() if key != "name"}
        choices = {**own, **_choices(each.component)}
        kept = choices if _fits(type(each.component), choices) else own
        tables.append({"name": name, **kept})
    return tables[0] if len(tables) == 1 else tables


def _training_choices(probe: BoundProbe, preset: Mapping[str, Any]) -> dict[str, Any]:
    """The loss of a training, and that there is none: other numbers are the preset's."""
    training = probe.training
    if training is None or not _trains(probe):
        return {}
    choices: dict[str, Any] = {}
    if training.loss != preset.get("loss", Training().loss):
        choices["loss"] = training.loss
    if training.steps == 0:
        choices["steps"] = 0
    return choices
