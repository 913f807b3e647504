"""The text of `penchant explain`, from declarations alone."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

import attrs
from penchant.components.component import Component, Probe
from penchant.components.options import describe_type, hints
from penchant.components.roles import Role, role_of
from penchant.components.taking import AXES, KINDS, taken
from penchant.components.training import Training
from penchant.errors import Error, suggestion
from penchant.plugins.discovery import Plugins
from penchant.plugins.registry import Registration

from penchant_tools.examples import example, example_of_role, example_of_training
from penchant_tools.formulas import plain_formulas

_LONGEST = 8  # entries of a list that are shown
_COST = "the quick preset takes at most a minute on two CPU cores; `--dry-run` predicts any other"


def explain(name: str, plugins: Plugins) -> str:
    """Everything of this name: components of all kinds, a role, `training`."""
    known = []
    texts = []
    # Components of several kinds may have one name; all of them are explained.
    for registration in plugins.registrations():
        address = plugins.address(registration)
        known.append(address)
        if name in (registration.component.name, address):
            texts.append(explanation(registration, plugins))
    for role, estimators in plugins.roles().items():
        known.append(role.name)
        if name == role.name:
            texts.append(_role(role, estimators, plugins))
    # A training is no component, but has options as one has.
    known.append(Training.name)
    if name == Training.name:
        texts.append(_training(plugins))
    if not texts:
        texts += _plugin(name, plugins)
    if not texts:
        raise Error(f"no component is called {name!r}{suggestion(name, known)}")
    return plain_formulas("\n\n".join(texts))


def _plugin(name: str, plugins: Plugins) -> list[str]:
    """The components of a plugin, if there is one of this name."""
    lines = []
    for registration in plugins.registrations():
        if registration.distribution in (name, f"penchant-{name}"):
            cls = registration.component
            about = getattr(cls, "question", "") or (inspect.getdoc(cls) or "").splitlines()[0]
            lines.append(f"  {cls.kind} {cls.name}: {about}")
    return ["\n".join([f"The plugin {name} has", *lines])] if lines else []


def explanation(registration: Registration, plugins: Plugins) -> str:
    """Help text, options with defaults and bounds, what comes out, cost, and an example."""
    cls = registration.component
    source = f"{registration.distribution} {registration.version}"
    lines = [f"{cls.name} ({cls.kind}, {source})", ""]
    if issubclass(cls, Probe) and cls.question:
        lines += [cls.question, ""]
    lines.append(inspect.getdoc(cls) or "")
    role = role_of(cls) if cls.kind == "estimator" else None
    if role is not None:
        lines += ["", f"Role: {role.name}"]
    lines += _options(cls)
    if issubclass(cls, Probe):
        lines += _probe(cls)
        lines += _section("Cost", [_COST])
    lines += _section("Example", [example(registration, plugins)])
    return "\n".join(lines)


def _role(role: Role[Any], estimators: list[Registration], plugins: Plugins) -> str:
    """What estimators of a role are called with and give, and which there are."""
    lines = [f"{role.name} (role)", "", inspect.cleandoc(role.__doc__ or "")]
    lines += _section("Called with", [", ".join(role.parameters)])
    rows = {
        plugins.address(registration): registration.component.summary()
        for registration in estimators
    }
    lines += _section("Estimators", _pairs(rows))
    lines += _section("Example", [example_of_role(role, estimators, plugins)])
    return "\n".join(lines)


def _training(plugins: Plugins) -> str:
    """How networks are trained: a table of an experiment, not a component."""
    lines = ["training (a table of an experiment)", "", inspect.getdoc(Training) or ""]
    lines += _options(Training)
    where = "[training] for all probes, [probes.training] for one, --set training.epochs=2 typed"
    lines += _section("Where", [where])
    lines += _section("Example", [example_of_training(plugins)])
    return "\n".join(lines)


def _options(cls: type[Component]) -> list[str]:
    return _section("Options", [_option(cls, field) for field in attrs.fields(cls)])


def _probe(cls: type[Probe]) -> list[str]:
    """What only probes have."""
    axes = [axis for axis in cls.accepts if axis in AXES]
    needs = [*cls.needs, *[f"{axis} (optional)" for axis in axes]]
    if cls.instead:
        needs.append(f"or none of these with {', '.join(cls.instead)}")
    takes = {kind: how for kind, how in taken(cls).items() if how != "no"}
    roles = {role: _names(default) for role, default in cls.roles.items()}
    presets = {name: _shown(values) for name, values in cls.presets.items()}
    return [
        *_section("Needs", [", ".join(needs)] if needs else []),
        *_section("Takes", _pairs({kind: _described(kind, how) for kind, how in takes.items()})),
        *_section("Estimators", _pairs(roles)),
        *_section("Datasets and architectures it calls", list(cls.uses)),
        *_section("Quantities", _pairs(cls.quantities)),
        *_section("Tables", _pairs(cls.tables)),
        *_section("Arrays", _pairs(cls.arrays)),
        *_section("Presets", _pairs(presets)),
    ]


def _described(kind: str, how: str) -> str:
    """How networks or data of a kind are taken, in words."""
    if how == "by state":
        return f"{KINDS[kind]}, one measurement each"
    words = {
        **KINDS,
        "tokens": "inputs that are whole numbers",
        "sequences": "a label for every position",
        "data": "a dataset" if how == "yes" else "a dataset, if there is one",
    }
    return words[kind]


def _section(title: str, rows: list[str]) -> list[str]:
    return ["", f"{title}:", *[f"  {row}" for row in rows]] if rows else []


def _pairs(declared: Mapping[str, str]) -> list[str]:
    return [f"{name}: {text}" for name, text in declared.items()]


def _names(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def _option(cls: type, field: Any) -> str:
    """One line about an option: what it means, its type, bounds and default."""
    metadata = field.metadata
    kind = describe_type(hints(cls)[field.name])
    # Its type says nothing: three things stand for an array.
    if metadata["array"]:
        kind = "an array, a file.npy or run:FOLDER#array"
    if metadata["arrays"]:
        kind = "a table of arrays by name (file.npy or run:FOLDER#array), or a file.npz"
    required = field.default is attrs.NOTHING
    default = "must be given" if required else f"default {_shown(field.default)}"
    facts = "; ".join([kind, *metadata["limits"].describe(), default])
    return f"{field.name}: {metadata['help']} ({facts})"


def _shown(value: object) -> str:
    return "none" if value is None else json.dumps(_shortened(value))


def _shortened(value: object) -> Any:
    """The value with long lists cut, such as a sweep of a hundred rates."""
    if isinstance(value, dict):
        return {key: _shortened(inner) for key, inner in value.items()}
    if not isinstance(value, (list, tuple)):
        return value
    entries = [_shortened(entry) for entry in value]
    if len(entries) <= _LONGEST:
        return entries
    # The beginning shows the spacing, the end how far it goes.
    return [*entries[:2], f"... {len(entries)} in all ...", entries[-1]]
