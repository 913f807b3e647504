"""Tables as a result holds them: arrays by name, and their axes in `result.json`.

The numbers of table `x` are array `x`, its errors `x-stderr`, its nulls `x-null`, and so on. What
is one number for the whole table stands beside its axes in the entry of the array.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from penchant.errors import Error
from penchant.results.tables import PARTS, Axes, Table

_TEXTS = ("over", "count", "unit")  # what else an entry may hold


def array_name(table: str, part: str) -> str:
    """The name of the array of a part.

    >>> array_name("loss", "null_spread")
    'loss-null-spread'
    """
    return f"{table}-{part.replace('_', '-')}"


def arrays_of(name: str, table: Table) -> dict[str, Any]:
    """The arrays of a table: its values, and each part that has a number for each of them."""
    arrays: dict[str, Any] = {name: table.values}
    for part, value in table.parts.items():
        if not isinstance(value, float):
            arrays[array_name(name, part)] = value
    return arrays


def entry_of(table: Table) -> dict[str, Any]:
    """What `result.json` says of a table beside the shape of its values."""
    entry: dict[str, Any] = {"axes": list(table.axes)}
    for part, value in table.parts.items():
        if isinstance(value, float) and math.isfinite(value):
            entry[part] = value
    entry |= {name: getattr(table, name) for name in _TEXTS if getattr(table, name)}
    return entry


def axes_of(tables: Mapping[str, Table]) -> Axes:
    """The axes of all tables; one name stands for the same coordinates in all of them."""
    axes: Axes = {}
    owners: dict[str, str] = {}
    for name, table in tables.items():
        for axis, entries in table.axes.items():
            if axes.setdefault(axis, entries) != entries:
                both = f"tables {owners[axis]!r} and {name!r}"
                raise Error(f"{both} have an axis {axis!r} of other coordinates: rename one")
            owners.setdefault(axis, name)
    return axes


def tables_from(
    entries: Mapping[str, Mapping[str, Any]],
    axes: Mapping[str, Sequence[Any]],
    arrays: Mapping[str, Any],
) -> dict[str, Table]:
    """The tables of a result that was read; results of older versions have none.

    Args:
        entries: Name of each array to what `result.json` says of it.
        axes: Name of each axis to its coordinates.
        arrays: The arrays; without them there are no tables.
    """
    tables = {}
    for name, entry in entries.items():
        if "axes" not in entry or name not in arrays:
            continue
        parts = {part: entry.get(part, arrays.get(array_name(name, part))) for part in PARTS}
        texts = {key: entry[key] for key in _TEXTS if key in entry}
        own = {axis: axes[axis] for axis in entry["axes"]}
        try:
            tables[name] = Table(arrays[name], own, **parts, **texts)
        except Error as error:
            raise ValueError(f"the table {name!r}: {error}") from None
    return tables
