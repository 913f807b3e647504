"""Shards: fixed blocks of a job's work; their items, what they share, and the form of answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
from penchant.components.component import Architecture
from penchant.errors import Error
from penchant.experiments.identity import content_hash
from penchant.results.files import host_array

if TYPE_CHECKING:
    import numpy as np

Arrays: TypeAlias = "dict[str, np.ndarray[Any, Any]]"  # as a shard's file holds its answer
NOTES = "notes"  # the array of a shard's file that holds its texts
LARGEST_MAP = 1_000_000  # more shards than a map can have


@attrs.frozen
class Scope:
    """Whose code runs, on which networks, with which random numbers.

    What is None is the job's own.
    """

    owner: tuple[str, int] | None = None  # role and number of an estimator; None: the probe
    keys: tuple[Any, ...] = ()  # enter every generator
    architecture: Architecture | None = None
    shape: tuple[int, ...] | None = None  # of one input
    outputs: int | None = None
    first: int = 0  # number of the network that counts as number 0
    state: int | None = None  # of a trajectory, the one that is measured alone; None: all


def ranges(networks: int | range, shard_size: int) -> list[range]:
    """Numbers of networks cut into blocks, the same for every executor.

    >>> ranges(70, 32)
    [range(0, 32), range(32, 64), range(64, 70)]
    """
    numbers = range(networks) if isinstance(networks, int) else networks
    if shard_size < 1:
        raise Error(f"shard_size must be at least 1, found {shard_size}")
    count = len(numbers)
    if count // shard_size > LARGEST_MAP:
        found = f"{count} networks in shards of {shard_size}"
        raise Error(f"expected at most {LARGEST_MAP} shards, found {found}")
    return [numbers[start : start + shard_size] for start in range(0, count, shard_size)]


def json_like(item: Any, function: Callable[..., Any]) -> Any:
    """The item as every worker sees it; one that is not JSON-like is refused."""
    if isinstance(item, range):
        return item
    try:
        # There and back: a tuple is a list here as well as in a worker.
        return json.loads(json.dumps(item))
    except (TypeError, ValueError) as error:
        what = f"found {item!r} for {function.__qualname__}: {error}"
        raise Error(f"context.map takes JSON-like items, {what}") from None


def shared_arrays(shared: Mapping[str, Any] | None) -> tuple[Arrays, str]:
    """The arrays that a map shares, on the host, and their hash; empty without any."""
    arrays = {}
    for name, value in (shared or {}).items():
        arrays[name] = array = host_array(value)
        if array.dtype.kind not in "biufc":
            raise Error(f"shared {name!r} must be an array of numbers, found {array.dtype}")
    return arrays, content_hash(arrays) if arrays else ""


def pack(answer: Any, function: Callable[..., Any], notes: dict[str, Any]) -> Arrays:
    """A shard's answer as a file holds it, the same whether it was done here or elsewhere.

    Args:
        answer: What the function returned.
        function: The function, for messages.
        notes: Warnings and conventions of the shard.

    Returns:
        Arrays; text, truth values and None stand in the notes.
    """
    import numpy as np

    if not isinstance(answer, Mapping):
        found = f"found {type(answer).__name__}"
        raise Error(f"{function.__qualname__} must return a dict of numbers and arrays, {found}")
    arrays: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for name, value in answer.items():
        # As arrays these would come back as something else.
        if value is None or isinstance(value, (str, bool)):
            values[name] = value
            continue
        array = host_array(value)
        if array.dtype.kind not in "biufcU":
            what = f"{function.__qualname__} returned {name!r} of {array.dtype}"
            raise Error(f"{what}, expected a number, an array, text, true, false or None")
        # Strided views are summed in another order than the same numbers read from a file.
        arrays[name] = array.copy(order="C") if array.ndim else array
    # The order of names, which values and arrays have lost between them.
    text = json.dumps({**notes, "values": values, "order": list(answer)})
    return {**arrays, NOTES: np.asarray(text)}


def unpack(arrays: Arrays) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answer of a shard, and its notes."""
    notes = json.loads(str(arrays[NOTES]))
    values = notes["values"]
    answer: dict[str, Any] = {}
    # As the function returned it: what is not an array stands in the notes.
    for name in notes["order"]:
        if name in values:
            answer[name] = values[name]
            continue
        array = arrays[name]
        # A single number is an array without axes.
        answer[name] = array if array.ndim else array.item()
    return answer, notes
