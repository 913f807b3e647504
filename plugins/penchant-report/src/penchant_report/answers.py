"""What a run says to the question of each probe: seeds pooled, what was measured side by side."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs
from penchant.errors import Error
from penchant.results.differences import Difference
from penchant.results.quantities import Quantity
from penchant.results.result import Result
from penchant.results.runs import Run
from penchant_numerics.statistics import significance

from penchant_report.pooling import Pooled, difference, effects_difference, nulls_differ, pooled

AXES = ("probe", "architecture", "dataset", "run")
MOST_PAIRS = 45  # differences of a quantity that are compared: those of ten groups


@attrs.frozen(eq=False)
class Entry:
    """What a page needs of a job, without its arrays: ten thousand of them fit into memory.

    Attributes:
        id: The job's id.
        status: As its result says; "pending" without one.
        labels: Of its probe, architecture and dataset, and its seed.
        probe: Name of the probe.
        question: What the probe asks.
        quantities: What it found.
        meanings: What each quantity means.
        conventions: What makes numbers incomparable.
        settings: All other settings, by name.
        warnings: What a reader must know.
        error: Why it failed.
        seconds: How long it took; None where it is unknown.
        own_samples: Are the samples the user's own, which are the same for every seed?
    """

    id: str
    status: str
    labels: dict[str, Any]
    probe: str = ""
    question: str = ""
    quantities: dict[str, Quantity] = attrs.field(factory=dict)
    meanings: dict[str, str] = attrs.field(factory=dict)
    conventions: dict[str, str] = attrs.field(factory=dict)
    settings: dict[str, Any] = attrs.field(factory=dict)
    warnings: tuple[str, ...] = ()
    error: str = ""
    seconds: float | None = None
    own_samples: bool = False

    @property
    def title(self) -> str:
        """Its labels in one line."""
        parts = []
        for axis in AXES:
            label = self.labels.get(axis)
            if label:
                parts.append(str(label))
        seed = self.labels.get("seed", "?")
        parts.append(f"seed {seed}")
        return " · ".join(parts)


def entries_of(run: Run) -> list[Entry]:
    """Every job of a run; one that cannot be read says why instead of costing the others."""
    entries = []
    # Jobs of one probe share their texts: ten thousand copies would fill the memory.
    shared: dict[str, Any] = {}
    for job in run.jobs:
        name = job["id"]
        status = job["status"]
        labels = dict(job["labels"])
        if status not in ("done", "failed"):
            entries.append(Entry(name, status, labels, probe=str(labels["probe"])))
            continue
        try:
            result = run.result(name, arrays=False)
            entries.append(_entry(name, labels, result, shared))
        except (Error, KeyError, TypeError, AttributeError, ValueError) as error:
            broken = Entry(name, "failed", labels, probe=str(labels["probe"]), error=str(error))
            entries.append(broken)
    return entries


def seeds_of(entries: Iterable[Entry]) -> set[Any]:
    """The seeds of these jobs, each once."""
    return {entry.labels.get("seed") for entry in entries}


def _entry(name: str, labels: dict[str, Any], result: Result, shared: dict[str, Any]) -> Entry:
    record: dict[str, Any] = dict(result.record)
    # Runs made before some of these were stored are shown without them.
    probe = record.get("probe") or {}
    summary = str(record.get("summary") or "")
    seconds = result.cost.get("seconds")
    if seconds is not None:
        seconds = float(seconds)
    return Entry(
        id=name,
        status=result.status,
        labels=labels,
        probe=str(probe.get("name") or labels["probe"]),
        question=str(record.get("question") or summary),
        quantities=result.quantities,
        meanings=_once(result.meanings, shared),
        conventions=_once(result.conventions, shared),
        settings=_once(_settings(record), shared),
        warnings=result.warnings,
        error=result.error or "",
        seconds=seconds,
        own_samples=(record.get("dataset") or {}).get("name") in ("import", "file"),
    )


def _once(value: Any, shared: dict[str, Any]) -> Any:
    """The same object for equal values."""
    content = repr(value)
    return shared.setdefault(content, value)


def _settings(record: dict[str, Any]) -> dict[str, Any]:
    """Settings besides the labels, one name per setting: `probe.networks`, `dtype`."""
    settings: dict[str, Any] = {}
    # What was put together, and with which options.
    for kind in ("probe", "architecture", "dataset"):
        part = record.get(kind) or {}
        options = part.get("options", {})
        for name, value in options.items():
            settings[f"{kind}.{name}"] = value
        weights = part.get("weights")
        if weights:
            settings[f"{kind}.weights"] = weights
    estimators = record.get("estimators") or {}
    for role, chosen in estimators.items():
        settings[f"estimator of {role}"] = _named(chosen)

    # How networks were trained.
    training = record.get("training") or {}
    for name, value in training.items():
        settings[f"training.{name}"] = value

    # Then what holds for the whole job.
    for name in ("preset", "shape", "outputs", "dtype", "device", "threads"):
        value = record.get(name)
        if value is not None:
            settings[name] = value

    versions = record.get("versions") or {}
    for name, text in versions.items():
        settings[f"version of {name}"] = text
    return settings


def _named(chosen: Any) -> str:
    """An estimator with its options, or several."""
    if isinstance(chosen, list):
        names = map(_named, chosen)
        return ", ".join(names)

    options = chosen.get("options", {})
    values = [f"{name} {value}" for name, value in options.items()]
    listed = ", ".join(values)
    name = chosen["name"]
    if not listed:
        return str(name)
    return f"{name} ({listed})"


@attrs.frozen(eq=False)
class Group:
    """Jobs that differ by their seed only, and what they found together."""

    label: str
    entries: list[Entry]
    quantities: dict[str, Pooled]

    @functools.cached_property
    def from_null(self) -> dict[str, Difference]:
        """How far each quantity that has a null is from it."""
        differences = {}
        for name, quantity in self.quantities.items():
            away = quantity.against_null
            if away is not None:
                differences[name] = away
        return differences

    @property
    def conventions(self) -> dict[str, str]:
        """What makes its numbers incomparable with others."""
        first = self.entries[0]
        return first.conventions


@attrs.frozen(eq=False)
class Contrast:
    """Two groups that differ in a quantity, or in its distance from nulls that differ."""

    quantity: str
    first: Group
    second: Group
    difference: Difference
    less_nulls: bool = False


@attrs.frozen(eq=False)
class Answer:
    """What a run says to the question of a probe.

    Attributes:
        probe: The probe's name.
        question: What it asks, in one sentence.
        axes: What differs between its groups: "architecture", "dataset".
        shared: What all of its groups have in common, as text.
        groups: What was measured, seeds pooled.
        entries: All its jobs, those that failed included.
        meanings: What each quantity means, in the order in which they are declared.
    """

    probe: str
    question: str
    axes: tuple[str, ...]
    shared: str
    groups: list[Group]
    entries: list[Entry]
    meanings: dict[str, str]

    @functools.cached_property
    def _contrasts(self) -> list[Contrast]:
        """Differences between groups whose errors are known."""
        contrasts = []
        for first, second in self.pairs:
            if clashes(first.conventions, second.conventions):
                continue
            for name in self.meanings:
                one = first.quantities.get(name)
                other = second.quantities.get(name)
                if one is None or other is None:
                    continue
                less_nulls = nulls_differ(one, other)
                apart = (effects_difference if less_nulls else difference)(one, other)
                # Without an error it cannot be called large or small.
                if apart is not None and apart.error is not None:
                    contrasts.append(Contrast(name, first, second, apart, less_nulls))
        return contrasts

    @functools.cached_property
    def _differences(self) -> list[Difference]:
        """Everything that is decided about: differences from nulls, and between groups."""
        differences: list[Difference] = []
        for group in self.groups:
            differences += group.from_null.values()
        differences += [contrast.difference for contrast in self._contrasts]
        return [each for each in differences if each.p is not None]

    @functools.cached_property
    def _significant(self) -> set[Difference]:
        """The significant differences, decided at once."""
        decided = significance.significant([each.p for each in self._differences])
        return {each for each, holds in zip(self._differences, decided) if holds}

    @property
    def comparisons(self) -> int:
        """How many differences are decided about."""
        return len(self._differences)

    @property
    def pairs(self) -> list[tuple[Group, Group]]:
        """Groups to compare; of very many, each with the first only."""
        count = len(self.groups)
        every = count * (count - 1) // 2
        if every <= MOST_PAIRS:
            pairs = itertools.combinations(self.groups, 2)
            return list(pairs)
        first, *others = self.groups
        return [(first, other) for other in others]

    def contrasts(self, quantity: str) -> list[Contrast]:
        """Differences between groups whose errors are known, most significant first."""
        own = [contrast for contrast in self._contrasts if contrast.quantity == quantity]
        return sorted(own, key=_size, reverse=True)

    def is_significant(self, apart: Difference) -> bool:
        """Is one of its differences significant, among all of them?"""
        return apart in self._significant

    def from_null(self, group: Group, quantity: str) -> int:
        """-1 significantly below its null, 1 above, 0 neither or unknown."""
        away = group.from_null.get(quantity)
        if away is None or not self.is_significant(away):
            return 0
        return 1 if away.value > 0 else -1


def _size(contrast: Contrast) -> tuple[float, float]:
    apart = contrast.difference
    z = apart.z
    # Two exact numbers that differ do so beyond any error; equal ones not at all.
    if z is None:
        z = math.inf if apart.value else 0.0
    return abs(z), abs(apart.value)


def clashes(first: dict[str, str], second: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Conventions that two results state differently: their numbers are not comparable."""
    clashes = {}
    for name, text in first.items():
        other = second.get(name, text)
        if other != text:
            clashes[name] = (text, other)
    return clashes


def answers(entries: Iterable[Entry]) -> list[Answer]:
    """One answer a probe, in the order in which probes come."""
    by_probe: dict[str, list[Entry]] = {}
    for entry in entries:
        members = by_probe.setdefault(entry.probe, [])
        members.append(entry)

    answers = []
    for probe, members in by_probe.items():
        answer = _answer(probe, members)
        answers.append(answer)
    return answers


def _answer(probe: str, entries: list[Entry]) -> Answer:
    # An axis tells groups apart, or is the same for all of them.
    varying = []
    common = []
    for axis in AXES:
        labels = [entry.labels.get(axis) for entry in entries]
        values = list(dict.fromkeys(labels))
        if len(values) > 1:
            varying.append(axis)
        # Data of the user's own that have no label have no name either.
        elif values[0] and axis != "probe" and (axis, values[0]) != ("dataset", "import"):
            common.append(str(values[0]))
    done = [entry for entry in entries if entry.status == "done"]
    shared = ", ".join(common)
    groups = list(_groups(done, varying, shared or probe))
    meanings: dict[str, str] = {}
    for entry in done:
        # In the order of the declaration; then what it does not name.
        for name in [*entry.meanings, *entry.quantities]:
            if name in entry.quantities:
                meanings.setdefault(name, entry.meanings.get(name, ""))
    questions = [entry.question for entry in entries if entry.question]
    return Answer(
        probe=probe,
        question=questions[0] if questions else probe,
        axes=tuple(varying),
        shared=shared,
        groups=groups,
        entries=entries,
        meanings=meanings,
    )


def _groups(entries: Sequence[Entry], axes: Sequence[str], single: str) -> Iterator[Group]:
    groups: dict[tuple[Any, ...], list[Entry]] = {}
    for entry in entries:
        labels = [entry.labels.get(axis) for axis in axes]
        members = groups.setdefault(tuple(labels), [])
        members.append(entry)
    for key, members in groups.items():
        yield Group(
            label=_group_label(dict(zip(axes, key))) or single,
            entries=members,
            quantities=_pooled_quantities(members),
        )


def _group_label(labels: dict[str, Any]) -> str:
    """What tells a group from others.

    >>> _group_label({"architecture": "lenet", "dataset": "mnist"})
    'lenet on mnist'
    """
    given = {axis: str(label) for axis, label in labels.items() if label}
    dataset = given.pop("dataset", "")
    named = ", ".join(given.values())
    return f"{named} on {dataset}" if named and dataset else named or dataset


def _pooled_quantities(entries: Sequence[Entry]) -> dict[str, Pooled]:
    by_name: dict[str, list[Quantity]] = {}
    for entry in entries:
        for name, quantity in entry.quantities.items():
            seeds = by_name.setdefault(name, [])
            seeds.append(quantity)

    quantities = {}
    for name, seeds in by_name.items():
        quantities[name] = pooled(seeds, shared=entries[0].own_samples)
    return quantities
