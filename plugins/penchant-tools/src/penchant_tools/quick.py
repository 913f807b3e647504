"""The quick form of an experiment: the same questions, asked of little data for a short time.

Every probe takes its preset `quick`. Of what the file and its preset say, choices stay (text, true
and false, names of estimators) and numbers go: a size of the file beside the small sizes of the
preset would ask for direction 1023 of 1000. A probe that asks for no more than its quick form
already stays as it is. Trainings that the file describes keep their recipe and are cut in length;
datasets, wide layers and large images are cut, and at most two seeds are left.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any

import attrs
from penchant.components.component import Dataset
from penchant.components.options import hints
from penchant.components.training import Training
from penchant.errors import Error
from penchant.experiments.experiment import build
from penchant.experiments.jobs import Choice, ProbeChoice
from penchant.plugins.discovery import Plugins

from penchant_tools.small_images import with_small_images

SEEDS = 2
WIDEST = 256  # units of a layer
LONGEST_LIST = 8  # entries that a probe's own list may have and still be quick
SAMPLES = {"train": 4000, "test": 2000, "per_class": 100, "test_per_class": 100}
CONVENTION = "reduced by --quick: not the numbers that the experiment asks for"
# Names of options that make less work the larger they are.
_STRIDES = ("every", "look_every")


def quick_form(
    raw: Mapping[str, Any],
    plugins: Plugins,
    where: str = "experiment",
) -> dict[str, Any]:
    """The reduced form of an experiment.

    Args:
        raw: The tables of an experiment, which must be valid.
        plugins: Where its components are looked for.
        where: The name of the file, for messages.

    Returns:
        The tables of another experiment, which says of itself that it is reduced.
    """
    experiment = build(raw, plugins, where)
    settings = experiment.settings
    found = with_small_images(raw, experiment, plugins)
    title = settings.title or where
    found["title"] = f"{title} (quick)"
    found["quick"] = True
    found["seeds"] = list(settings.seeds[:SEEDS])
    # What is measured on: the same tables, smaller.
    for axis in ("architecture", "dataset"):
        key = f"{axis}s"
        if found.get(key):
            found[key] = [_smaller(entry, axis, plugins) for entry in found[key]]
    # What is measured.
    is_described = "training" in raw
    probes = []
    for entry, choice in zip(raw["probes"], experiment.probes, strict=True):
        probe = _probe(entry, choice, is_described)
        probes.append(probe)
    found["probes"] = _without_repetitions(probes)
    return found


def _probe(
    entry: Mapping[str, Any],
    choice: ProbeChoice,
    is_described: bool,
) -> dict[str, Any]:
    """One probe in its quick form; `is_described`: the experiment describes a training."""
    cls = type(choice.component)
    preset = cls.presets.get("quick", {})
    values = {name: value for name, value in preset.items() if name not in _PARTS}
    quick = cls.bind(values)
    found = {name: entry[name] for name in _AXES if name in entry}
    found["preset"] = "quick"
    if not cls.presets:
        del found["preset"]
    options = _options(entry, choice, quick)
    found.update(options)
    estimators = _estimators(choice, preset.get("estimators", {}))
    if estimators:
        found["estimators"] = estimators
    # A network of the user's own is trained only where its probe asks for that.
    own = "training" in entry
    trains = own or not _is_as_given(choice)
    if choice.training is not None and trains:
        described = is_described or own
        usual = preset.get("training", {})
        training = _training(choice.training, usual, described)
        if training:
            found["training"] = training
    return found


_PARTS = ("estimators", "training")
_AXES = ("name", "label", "architectures", "datasets")


def _options(
    entry: Mapping[str, Any],
    choice: ProbeChoice,
    quick: Any,
) -> dict[str, Any]:
    """Options of a probe beside those of its quick preset."""
    cls = type(choice.component)
    fields = attrs.fields(cls)
    names = [field.name for field in fields]
    given = {name: entry[name] for name in names if name in entry}
    if choice.preset == "quick" and not _is_larger(given, quick):
        return given
    choices: dict[str, Any] = {}
    unset: dict[str, Any] = {}
    for field in fields:
        value = getattr(choice.component, field.name)
        usual = getattr(quick, field.name)
        if _same(value, usual):
            continue
        if not _holds_numbers(cls, field):
            choices[field.name] = value
        elif usual is None:
            unset[field.name] = value
    # A choice may need a number that the quick form leaves unset; or cannot be had in small.
    for options in (choices, {**choices, **unset}):
        try:
            cls.bind({**quick.options(), **options})
        except Error:
            continue
        return options
    return {}


def _is_larger(given: Mapping[str, Any], quick: Any) -> bool:
    """Does any of these options ask for more than the quick form?"""
    for name, value in given.items():
        usual = getattr(quick, name)
        more = False
        if isinstance(value, (list, tuple)):
            length = len(usual) if isinstance(usual, tuple) else 0
            longest = max(length, LONGEST_LIST)
            more = len(value) > longest
        elif isinstance(value, int) and isinstance(usual, int):
            # A wider stride looks at less.
            wider = name in _STRIDES
            more = value < usual if wider else value > usual
        if more:
            return True
    return False


def _estimators(choice: ProbeChoice, preset: Mapping[str, Any]) -> dict[str, Any]:
    """The chosen estimators, none of their sizes larger than in the quick form."""
    roles = type(choice.component).roles
    found: dict[str, Any] = {}
    for role, chosen in choice.estimators.items():
        usual = preset.get(role, ())
        if not isinstance(usual, (list, tuple)):
            usual = [usual]
        tables = [_estimator(each, usual) for each in chosen]

        # As the experiment would write it: a list where the probe takes several.
        default = roles[role]
        several = isinstance(default, (list, tuple))
        found[role] = tables if several else tables[0]
    return found


def _estimator(chosen: Choice, usual: Any) -> dict[str, Any]:
    """One estimator; `usual` are those of the quick preset."""
    cls = type(chosen.component)
    required = _required(chosen.component)
    options = _preset_options(cls.name, usual)
    quick = cls.bind({**required, **options})
    table: dict[str, Any] = {"name": chosen.offer.component.name}
    for field in attrs.fields(cls):
        value = getattr(chosen.component, field.name)
        usual_value = getattr(quick, field.name)
        are_sizes = isinstance(value, int) and isinstance(usual_value, int)
        if are_sizes and not isinstance(value, bool):
            value = min(value, usual_value)
        # What is as it is by default goes without saying.
        needed = field.default is attrs.NOTHING
        if needed or not _same(value, field.default):
            table[field.name] = value
    return table


def _preset_options(name: str, usual: Any) -> dict[str, Any]:
    """The quick preset's options of the same estimator; none where it names another."""
    for entry in usual:
        if isinstance(entry, Mapping) and entry.get("name") == name:
            options = dict(entry)
            del options["name"]
            return options
    return {}


def _required(component: Any) -> dict[str, Any]:
    """Options that have no default."""
    found = {}
    for field in attrs.fields(type(component)):
        if field.default is attrs.NOTHING:
            found[field.name] = getattr(component, field.name)
    return found


def _is_as_given(choice: ProbeChoice) -> bool:
    """Is a network of the user's own measured as it is? Then a training would change that."""
    architectures = choice.axes.get("architecture", ())
    given = [each for each in architectures if each is not None]
    return any(each.is_one_network for each in given)


def _training(
    asked: Training,
    usual: Mapping[str, Any],
    is_described: bool,
) -> dict[str, Any]:
    """The training in quick form, where it is not simply that of the quick preset."""
    quick = Training.bind(usual)
    if not is_described:
        # The recipe of a published figure needs its length; only its question stays.
        if asked.loss == quick.loss:
            return {}
        return {"loss": asked.loss}
    table = asked.options()
    table["learning_rates"] = ()
    table.update(_length(asked, quick))
    return table


def _length(asked: Training, quick: Training) -> dict[str, Any]:
    """Epochs or steps: the shorter of both, or the quick form's where units differ."""
    steps = quick.steps
    # No steps at all are the shortest in any unit.
    if asked.steps == 0:
        steps = 0
    elif asked.steps is not None and steps is not None:
        steps = min(asked.steps, steps)
    if steps is not None:
        return {"steps": steps, "epochs": None}

    both = (asked.epochs, quick.epochs)
    lengths = [each for each in both if each is not None]
    fewest = min(lengths, default=None)
    return {"epochs": fewest, "steps": None}


def _smaller(
    entry: Mapping[str, Any],
    kind: str,
    plugins: Plugins,
) -> dict[str, Any]:
    """An architecture with narrower layers, or a dataset of fewer samples."""
    cls = plugins.find(kind, entry["name"]).component
    found = dict(entry)
    for field in attrs.fields(cls):
        name = field.name
        if issubclass(cls, Dataset):
            most = SAMPLES.get(name)
            value = entry.get(name, field.default)
            # None asks for all there are.
            if most is not None and (value is None or value > most):
                found[name] = most
        elif name in entry and _holds_numbers(cls, field):
            found[name] = _narrower(entry[name])
    return found


def _narrower(value: Any) -> Any:
    """Whole numbers beyond the widest layer are cut to it."""
    if isinstance(value, (list, tuple)):
        return [_narrower(part) for part in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return min(value, WIDEST)
    return value


def _without_repetitions(probes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Probes that differed in numbers alone are one and the same now: each is asked once."""
    kept: list[dict[str, Any]] = []
    alike: list[int] = []
    for probe in probes:
        asked = _question(probe)
        for index, other in enumerate(kept):
            if asked == _question(other):
                alike[index] += 1
                break
        else:
            kept.append(probe)
            alike.append(0)
    # The label says for how many others it stands.
    for probe, more in zip(kept, alike):
        if more:
            label = probe.get("label", probe["name"])
            probe["label"] = f"{label} and {more} more"
    return kept


def _question(probe: Mapping[str, Any]) -> dict[str, Any]:
    asked = dict(probe)
    asked.pop("label", None)
    return asked


def _same(first: Any, second: Any) -> bool:
    # Arrays have no single answer to ==; an array of the user's own is never a default.
    if hasattr(first, "shape") or hasattr(second, "shape"):
        return False
    return bool(first == second)


def _holds_numbers(cls: type, field: Any) -> bool:
    """Is an option a number, or a list of numbers?"""
    if field.metadata["array"] or field.metadata["target"]:
        return False
    hint = hints(cls)[field.name]
    kinds = _parts(hint)
    return int in kinds or float in kinds


def _parts(hint: Any) -> list[Any]:
    """The plain types in a hint: int of `tuple[int, ...] | None`."""
    origin = typing.get_origin(hint)
    if origin not in (tuple, types.UnionType, typing.Union):
        return [hint]
    found = []
    for each in typing.get_args(hint):
        found.extend(_parts(each))
    return found
