"""Tables of what a map finds: one shard for every combination of coordinates.

Axes of the coordinates that shards are given are outer ones, those of the arrays that they return
are inner ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penchant.errors import Error
from penchant.results.tables import Table, check_coordinates

if TYPE_CHECKING:
    from penchant.execution.job.context import Context


def tables(
    context: Context,
    function: Callable[..., Any],
    axes: Mapping[str, Iterable[Any]],
    *,
    inside: Sequence[str] | Mapping[str, Sequence[Any]],
    shared: Mapping[str, Any] | None,
    trainings: bool,
    outputs: int | None,
) -> dict[str, Table]:
    """A table for every name that the function returns; see `Context.tables`."""
    import numpy as np
    from penchant_numerics.training import map_trainings

    outer = {axis: tuple(coordinates) for axis, coordinates in axes.items()}
    # Before anything is computed.
    check_coordinates(outer)
    items = [dict(zip(outer, place)) for place in itertools.product(*outer.values())]
    if not items:
        empty = [axis for axis, coordinates in outer.items() if not coordinates]
        raise Error(f"context.tables needs a coordinate for every axis, found none for {empty}")
    answers: Iterable[Mapping[str, Any]]
    if trainings:
        answers = map_trainings(context, function, items, outputs=outputs, shared=shared)
    else:
        answers = context.map(function, items, shared=shared)
    columns: dict[str, list[Any]] = {}
    for answer in answers:
        for name, value in answer.items():
            columns.setdefault(name, []).append(value)
    what = function.__qualname__
    declared = context.runtime.job.probe.tables
    by_name = {}
    for name, values in columns.items():
        # Axes of the declaration, in the order in which arrays have them.
        own = [axis for axis in inside if axis in declared.get(name, ())]
        if len(own) != np.ndim(values[0]):
            own = list(inside)
        by_name[name] = _table(values, outer, own, f"{what} returned {name!r}", inside)
    return by_name


def _table(
    values: Sequence[Any],
    outer: Mapping[str, Sequence[Any]],
    inside: Sequence[str],
    what: str,
    coordinates: Sequence[str] | Mapping[str, Sequence[Any]],
) -> Table:
    """The values of all shards, in their order, as one table."""
    import numpy as np

    arrays = [np.asarray(value) for value in values]
    lengths = [len(coordinates) for coordinates in outer.values()]
    shape = arrays[0].shape
    for array in arrays:
        if array.dtype.kind not in "biufc":
            raise Error(f"{what} of {array.dtype}, expected numbers; context.map takes others, too")
        if array.shape != shape:
            raise Error(f"{what} of shape {shape} and of shape {array.shape}, expected one shape")
    if len(arrays) != np.prod(lengths, dtype=int):
        raise Error(f"{what} in {len(arrays)} of {np.prod(lengths, dtype=int)} shards, not in all")
    if len(shape) > len(inside):
        raise Error(f"{what} of shape {shape}, expected a name in `inside` for each of its axes")
    stacked = np.stack(arrays).reshape(*lengths, *shape)
    inner = dict(zip(inside, map(range, shape)))
    # Coordinates that are not named are numbers.
    given = dict(coordinates) if isinstance(coordinates, Mapping) else {}
    return Table(
        stacked, {**outer, **inner, **{axis: given[axis] for axis in inner if axis in given}}
    )
