"""What `penchant explain` says of a component, from its declaration alone."""

from __future__ import annotations

import inspect
import json
from typing import Any

import attrs
from penchant.components import Probe, describe_type, hints
from penchant.plugins import Offer
from penchant.roles import role_of


def explanation(offer: Offer) -> str:
    """Help text, options with defaults and bounds, presets, arrays and quantities."""
    cls = offer.component
    lines = [
        f"{cls.name} ({cls.kind}, {offer.distribution} {offer.version})",
        "",
        inspect.getdoc(cls) or "",
    ]
    if cls.kind == "estimator" and (role := role_of(cls)):
        lines += ["", f"Role: {role.name}"]
    lines += _section("Options", [_option(cls, field) for field in attrs.fields(cls)])
    if issubclass(cls, Probe):
        needs = [*cls.needs, *(f"{axis} (only when selected)" for axis in cls.accepts)]
        lines += _section("Needs", [", ".join(needs)] if needs else [])
        lines += _section(
            "Estimators", [f"{role}: {_names(default)}" for role, default in cls.roles.items()]
        )
        lines += _section("Datasets it calls", list(cls.uses))
        lines += _section(
            "Quantities", [f"{name}: {text}" for name, text in cls.quantities.items()]
        )
        lines += _section("Arrays", [f"{name}: {text}" for name, text in cls.arrays.items()])
        lines += _section(
            "Presets", [f"{name}: {json.dumps(values)}" for name, values in cls.presets.items()]
        )
    return "\n".join(lines)


def _section(title: str, rows: list[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {row}" for row in rows)] if rows else []


def _names(value: Any) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def _option(cls: type, field: Any) -> str:
    limits = [
        f"{key.replace('_', ' ')} {value}"
        for key in ("at_least", "at_most", "above", "below")
        if (value := field.metadata[key]) is not None
    ]
    if field.metadata["choices"]:
        limits.append(" | ".join(map(str, field.metadata["choices"])))
    kind = (
        "an array, a file.npy or run:FOLDER#array"
        if field.metadata["array"]
        else describe_type(hints(cls)[field.name])
    )
    default = (
        "must be given" if field.default is attrs.NOTHING else f"default {_shown(field.default)}"
    )
    return f"{field.name}: {field.metadata['help']} ({'; '.join([kind, *limits, default])})"


def _shown(value: Any) -> str:
    return "none" if value is None else json.dumps(value)
