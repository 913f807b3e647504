"""Options as people type them: `samples=50`, `mlp:widths=[100,100],activation=gelu`, `probes.nad.samples=50`."""

from __future__ import annotations

import copy
from typing import Any

from penchant.errors import Error, suggestion


def parse_component(text: str) -> dict[str, Any]:
    """A name and its options; split at the first colon.

    >>> parse_component("mlp:widths=[100,100],activation=gelu")
    {'name': 'mlp', 'widths': [100, 100], 'activation': 'gelu'}
    """
    name, _, options = text.partition(":")
    return {"name": name, **parse_options(options)}


def parse_options(text: str) -> dict[str, Any]:
    """Values by name. A value is a TOML literal; what is not one is a string up to the next comma outside brackets."""
    found: dict[str, Any] = {}
    for part in _split(text):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise Error(f"expected option=value, found {part!r}")
        found[key.strip()] = parse_value(value.strip())
    return found


def _split(text: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        if character == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip()]


def parse_value(text: str) -> Any:
    """A TOML literal, else the text itself."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib  # type: ignore[no-redef]
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def apply(raw: dict[str, Any], text: str) -> dict[str, Any]:
    """The experiment with one value changed: `training.epochs=2`, `seeds=[0,1]`, `probes.nad.samples=50` (by label)."""
    path, equals, value = text.partition("=")
    if not equals:
        raise Error(f"--set takes PATH=VALUE, found {text!r}")
    changed = copy.deepcopy(raw)
    *way, last = path.split(".")
    places: list[Any] = [changed]
    for step in way:
        places = [each for place in places for each in _inside(place, step, path)]
    for place in places:
        if not isinstance(place, dict):
            raise Error(f"--set {path}: {last!r} is not inside a table")
        place[last] = parse_value(value.strip())
    return changed


def _inside(place: Any, step: str, path: str) -> list[Any]:
    if isinstance(place, list):
        labels = [each.get("label", each.get("name")) for each in place if isinstance(each, dict)]
        found = [
            each
            for each in place
            if isinstance(each, dict)
            and step in (each.get("label", each.get("name")), each.get("name"))
        ]
        if not found:
            raise Error(
                f"--set {path}: nothing is called {step!r}{suggestion(step, [str(label) for label in labels])}"
            )
        return found
    return [place.setdefault(step, {})]
