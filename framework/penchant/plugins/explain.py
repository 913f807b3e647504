"""What `penchant explain` says of a component, from its declaration alone."""

from __future__ import annotations

import inspect
import json
from typing import Any

import attrs
from penchant.components.component import Probe
from penchant.components.options import describe_type, hints
from penchant.components.roles import role_of
from penchant.plugins.discovery import Offer

_LONGEST = 8  # entries of a list that are shown


def explanation(offer: Offer) -> str:
    """Help text, options with defaults and bounds, presets, arrays and quantities."""
    cls = offer.component
    title = f"{cls.name} ({cls.kind}, {offer.distribution} {offer.version})"
    lines = [title, "", inspect.getdoc(cls) or ""]
    role = role_of(cls) if cls.kind == "estimator" else None
    if role is not None:
        lines += ["", f"Role: {role.name}"]
    options = [_option(cls, field) for field in attrs.fields(cls)]
    lines += _section("Options", options)
    if issubclass(cls, Probe):
        lines += _probe(cls)
    return "\n".join(lines)


def _probe(cls: type[Probe]) -> list[str]:
    """What only probes have."""
    needs = list(cls.needs)
    for axis in cls.accepts:
        needs.append(f"{axis} (only when selected)")
    roles = [f"{role}: {_names(default)}" for role, default in cls.roles.items()]
    presets = [f"{name}: {_shown(values)}" for name, values in cls.presets.items()]
    return [
        *_section("Needs", [", ".join(needs)] if needs else []),
        *_section("Estimators", roles),
        *_section("Datasets and architectures it calls", list(cls.uses)),
        *_section("Quantities", _pairs(cls.quantities)),
        *_section("Arrays", _pairs(cls.arrays)),
        *_section("Presets", presets),
    ]


def _section(title: str, rows: list[str]) -> list[str]:
    if not rows:
        return []
    indented = [f"  {row}" for row in rows]
    return ["", f"{title}:", *indented]


def _pairs(declared: Any) -> list[str]:
    return [f"{name}: {text}" for name, text in declared.items()]


def _names(value: Any) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def _option(cls: type, field: Any) -> str:
    """One line about an option: what it means, its type, bounds and default."""
    kind = describe_type(hints(cls)[field.name])
    # Its type says nothing: three things stand for an array.
    if field.metadata["array"]:
        kind = "an array, a file.npy or run:FOLDER#array"
    default = "must be given"
    if field.default is not attrs.NOTHING:
        default = f"default {_shown(field.default)}"
    limits = field.metadata["limits"].describe()
    facts = "; ".join([kind, *limits, default])
    return f"{field.name}: {field.metadata['help']} ({facts})"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return json.dumps(_shortened(value))


def _shortened(value: Any) -> Any:
    """The value with long lists cut: a sweep of a hundred rates is not read by anybody."""
    if isinstance(value, dict):
        return {key: _shortened(part) for key, part in value.items()}
    if not isinstance(value, (list, tuple)):
        return value
    parts = [_shortened(part) for part in value]
    if len(parts) <= _LONGEST:
        return parts
    # The beginning shows the spacing, the end how far it goes.
    return [*parts[:2], f"... {len(parts)} in all ...", parts[-1]]
