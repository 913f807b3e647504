"""Command-line text: `networks=50`, `mlp:widths=[100,100],activation=gelu`, `training.epochs=2`."""

import copy
import tomllib
from collections.abc import Mapping
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
        hint = f"write {name}:option=value; `penchant explain {name}` lists its options"
        raise Error(f"{error} in {text!r}: {hint}") from None


def parse_options(text: str) -> dict[str, Any]:
    """Values by name.

    A value is a TOML literal, or else text up to the next comma outside brackets.
    """
    options: dict[str, Any] = {}
    for entry in _split(text):
        key, equals, value = entry.partition("=")
        if not equals or not key.strip():
            raise Error(f"expected option=value, found {entry!r}")
        options[key.strip()] = parse_value(value.strip())
    return options


def _split(text: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    entries = [""]
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
            entries.append("")
        else:
            entries[-1] += character
    return [entry for entry in entries if entry.strip()]


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
    # A step may lead to several tables of one name: the value is set in each.
    *way, last = path.split(".")
    tables: list[Any] = [changed]
    for step in way:
        tables = [inner for table in tables for inner in _inside(table, step, path)]
    for table in tables:
        if not isinstance(table, dict):
            raise Error(f"--set {path}: {last!r} is not inside a table")
        # Parsed for each: no two tables share a list.
        table[last] = parse_value(value.strip())
    return changed


def _inside(table: Any, step: str, path: str) -> list[Any]:
    """The tables that one step of a path leads to."""
    if not isinstance(table, list):
        return [table.setdefault(step, {})]
    tables = [each for each in table if isinstance(each, dict)]
    named = [each for each in tables if step in (label_of(each), each.get("name"))]
    if not named:
        labels = [str(label_of(each)) for each in tables]
        raise Error(f"--set {path}: nothing is called {step!r}{suggestion(step, labels)}")
    return named


def label_of(table: Mapping[str, Any]) -> Any:
    """The label of a component's table; without one it goes by its name."""
    # Not by the name of its distribution, which may stand before it.
    return table.get("label", str(table.get("name")).rpartition("/")[2])
