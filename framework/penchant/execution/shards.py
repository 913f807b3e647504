"""Shards: fixed blocks of a job's work, each stored on disk when it is done.

The name of a shard's file ends in a hash: of the job's key, the function, the item, the scope, and
what the map shares. So a shard of another version, or of other numbers, is never taken for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
from penchant.components.component import Architecture
from penchant.components.targets import sendable
from penchant.errors import Error
from penchant.experiments.identity import content_hash, plain
from penchant.results.files import host_array, read_arrays, set_aside, write_arrays

if TYPE_CHECKING:
    import numpy as np

Arrays: TypeAlias = "dict[str, np.ndarray[Any, Any]]"  # as a shard's file holds its answer
NOTES = "notes"  # the array of a shard's file that holds its texts
LARGEST_MAP = 1_000_000  # more shards than a map can have


@attrs.frozen
class Scope:
    """Whose code runs, on which networks, with which random numbers.

    Attributes:
        owner: None for the probe, else the role and number of an estimator: ("directions", 0).
        keys: What enters every generator.
        architecture: The component that replaces the job's, if one does.
        shape: The input's shape, where it replaces the job's.
        outputs: The number of outputs, where it replaces the job's.
        first: Number of the network that counts as number 0.
        state: The state of a trajectory that is measured alone; None: all of them.
    """

    owner: tuple[str, int] | None = None
    keys: tuple[Any, ...] = ()
    architecture: Architecture | None = None
    shape: tuple[int, ...] | None = None
    outputs: int | None = None
    first: int = 0
    state: int | None = None


@attrs.frozen
class Shard:
    """One item of a map."""

    number: int
    function: Callable[..., Any]
    item: Any
    scope: Scope

    def identity(self, key: str, shared: str) -> str:
        """What no other shard of any job has."""
        function = f"{self.function.__module__}:{self.function.__qualname__}"
        # An architecture may hold arrays, whose text is cut; its options go in by content.
        scope = attrs.evolve(self.scope, architecture=None)
        replaced = self.scope.architecture
        network = "" if replaced is None else f"{replaced.name} {plain(replaced.options())}"
        texts = [key, function, repr(self.item), repr(scope), network, shared]
        text = "\n".join(texts)
        return hashlib.sha256(text.encode()).hexdigest()


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


def check_sendable(function: Callable[..., Any]) -> None:
    """Refuse a function that other processes cannot import."""
    if not sendable(function):
        name = f"{function.__module__}:{function.__qualname__}"
        hint = "define it at the top of a module"
        raise Error(
            f"context.map needs a function that other processes can import, found {name}; {hint}"
        )


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


@attrs.frozen
class ShardStore:
    """The shards of a job on disk.

    Attributes:
        folder: Where they are.
        key: The job's key.
        shared: A hash of what their map shares.
    """

    folder: Path
    key: str
    shared: str = ""

    def path(self, shard: Shard) -> Path:
        """The file of a shard."""
        return self.folder / f"{shard.number}-{shard.identity(self.key, self.shared)[:16]}.npz"

    def has(self, shard: Shard) -> bool:
        """Is this shard stored?"""
        return self.path(shard).exists()

    def missing(self, shards: Sequence[Shard]) -> list[Shard]:
        """Shards still to be done."""
        stored = set(self.folder.iterdir()) if self.folder.is_dir() else set()
        return [shard for shard in shards if not stored or self.path(shard) not in stored]

    def read(self, shard: Shard) -> Arrays | None:
        """The arrays of a stored shard; None where its file is damaged, which is quarantined."""
        path = self.path(shard)
        try:
            arrays = read_arrays(path)
            # Whether it can be understood is found out while it can still be computed again.
            unpack(arrays)
            return arrays
        except (Error, KeyError, ValueError, TypeError):
            set_aside(path)
            return None

    def write(self, shard: Shard, arrays: Arrays) -> None:
        """Write the arrays of a shard, as `pack` makes them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # A shard that a power cut takes is computed again; waiting for the disk costs more.
        write_arrays(self.path(shard), arrays, durable=False)
