"""What people type: `networks=50`, `mlp:widths=[100,100],activation=gelu`, `training.epochs=2`."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

from penchant.errors import Error, suggestion


def parse_component(text: str) -> dict[str, Any]:
    """A name and its options; split at the first colon.

    >>> parse_component("mlp:widths=[100,100],activation=gelu")
    {'name': 'mlp', 'widths': [100, 100], 'activation': 'gelu'}
    """
    name, _, options = text.partition(":")
    try:
        return {"name": name, **parse_options(options)}
    except Error as error:
        cure = f"write {name}:option=value; `penchant explain {name}` lists its options"
        raise Error(f"{error} in {text!r}: {cure}") from None


def parse_options(text: str) -> dict[str, Any]:
    """Values by name.

    A value is a TOML literal; what is not one is a string up to the next comma outside brackets.
    """
    found: dict[str, Any] = {}
    for part in _split(text):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise Error(f"expected option=value, found {part!r}")
        found[key.strip()] = parse_value(value.strip())
    return found


def _split(text: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    parts = [""]
    depth = 0
    quote = ""
    for character in text:
        # Inside quotes only the same quote means anything.
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
        return tomllib.loads(f"value = {text}")["value"]
    # gelu needs no quotes: on a shell they would have to be typed twice.
    except tomllib.TOMLDecodeError:
        return text
    except (ValueError, RecursionError) as error:
        raise Error(f"{text[:40]}... cannot be read as a value: {error}") from None


def apply(raw: dict[str, Any], text: str) -> dict[str, Any]:
    """The experiment with one value changed.

    `training.epochs=2`, `seeds=[0,1]`, `probes.nad.networks=50` (by label or name).
    """
    path, equals, value = text.partition("=")
    if not equals:
        raise Error(f"--set takes PATH=VALUE, found {text!r}")
    changed = copy.deepcopy(raw)
    # A step may lead to several tables, all those of one name: the value is set in each.
    *way, last = path.split(".")
    places: list[Any] = [changed]
    for step in way:
        places = [inside for place in places for inside in _inside(place, step, path)]
    for place in places:
        if not isinstance(place, dict):
            raise Error(f"--set {path}: {last!r} is not inside a table")
        # Read for each: no two tables share a list.
        place[last] = parse_value(value.strip())
    return changed


def _inside(place: Any, step: str, path: str) -> list[Any]:
    """The tables that one step of a path leads to."""
    if not isinstance(place, list):
        return [place.setdefault(step, {})]
    tables = [each for each in place if isinstance(each, dict)]
    found = [each for each in tables if step in (_label(each), each.get("name"))]
    if not found:
        labels = [str(_label(each)) for each in tables]
        raise Error(f"--set {path}: nothing is called {step!r}{suggestion(step, labels)}")
    return found


def _label(table: dict[str, Any]) -> Any:
    # Without a label a component goes by its name, not by its distribution's.
    return table.get("label", str(table.get("name")).rpartition("/")[2])
