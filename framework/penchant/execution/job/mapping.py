"""Maps: the shards of a job, done in this process or by workers, in their order.

Shards are fixed blocks of a job's work, each of which is stored on disk when it is done.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import attrs
from penchant.errors import Error
from penchant.execution.job.environment import policy
from penchant.experiments.identity import content_hash, plain
from penchant.results.files import host_array, read_arrays, set_aside, write_arrays
from penchant.results.job_folder import JobFolder

if TYPE_CHECKING:
    import numpy as np
    from penchant.execution.job.context import Context
    from penchant.execution.job.runtime import Runtime
    from penchant.execution.workers.engines import SentMap

Arrays: TypeAlias = "dict[str, np.ndarray[Any, Any]]"  # as a shard's file holds its answer
NOTES = "notes"  # the array of a shard's file that holds its texts
LARGEST_MAP = 1_000_000  # more shards than a map can have


@attrs.frozen(eq=False)
class Map:
    """The shards of one call of `context.map`: shard i calls the function with item i."""

    context: Context  # the one that maps; in another worker, one of the same job and scope
    function: Callable[..., Any]
    items: Sequence[Any]  # JSON-like values, or ranges of networks
    first: int = 0  # how many shards the job had before: numbers of shards name their files
    shared: Arrays = attrs.field(factory=dict)  # what all shards share
    digest: str = ""  # a hash of that; empty without any

    @classmethod
    def of(
        cls,
        context: Context,
        function: Callable[..., Any],
        items: Sequence[Any] | None,
        *,
        networks: int | range | None,
        shard_size: int,
        shared: Mapping[str, Any] | None,
    ) -> Map:
        """The next map of a job; see `Context.map`."""
        if (items is None) == (networks is None):
            raise Error("context.map takes either items or networks")
        if networks is not None:
            items = ranges(networks, shard_size)
        assert items is not None
        arrays, digest = shared_arrays(shared)
        # Numbered through all maps of the job.
        maps = context.runtime.maps
        first = sum(maps)
        maps.append(len(items))
        items = [json_like(item, function) for item in items]
        return cls(context, function, items, first, arrays, digest)

    @property
    def runtime(self) -> Runtime:
        """How its job runs."""
        return self.context.runtime

    @functools.cached_property
    def _identity(self) -> list[str]:
        """What all shards of this map have in common, and no others have."""
        scope = self.runtime.scope
        name = f"{self.function.__module__}:{self.function.__qualname__}"
        # An architecture may hold arrays, whose text is cut; its options go in by content.
        replaced = scope.architecture
        network = "" if replaced is None else f"{replaced.name} {plain(replaced.options())}"
        rest = repr(attrs.evolve(scope, architecture=None))
        return [self.runtime.job.key, name, rest, network, self.digest]

    @property
    def job(self) -> str:
        """The id of its job."""
        return self.runtime.job.id

    @functools.cached_property
    def folder(self) -> Path:
        """Where the answers of shards are stored."""
        return JobFolder.of(self.runtime.folder, self.runtime.job.id).shards

    def path(self, shard: int) -> Path:
        """The file of a shard.

        Its name ends in a hash: of the job's key, the function, the scope, what the map shares, and
        the item. So a shard of another version, or of other numbers, is never taken for it.
        """
        text = "\n".join([*self._identity, repr(self.items[shard])])
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return self.folder / f"{self.first + shard}-{digest}.npz"

    def has(self, shard: int) -> bool:
        """Is the answer of a shard stored?"""
        return self.path(shard).exists()

    def missing(self) -> list[int]:
        """Shards still to be done."""
        every = range(len(self.items))
        link = self.runtime.link
        stored = link.stored if link else {path.name for path in self.folder.glob("*.npz")}
        if not stored:
            return list(every)
        return [shard for shard in every if self.path(shard).name not in stored]

    def run(self, shard: int) -> Arrays:
        """Do one shard; its answer has the same form whether it was done here or elsewhere."""
        import torch

        # A copy each: a shard that writes to it changes no other's numbers.
        shared = {
            name: torch.tensor(array, device="cpu").to(self.runtime.device)
            for name, array in self.shared.items()
        }
        runtime = self.runtime.in_shard(shared)
        # Every shard begins with the same flags, whatever the one before has set.
        with policy(runtime.job.settings, runtime.device, runtime.notes.warn):
            answer = self.function(self.context.of(runtime), self.items[shard])
        return pack(answer, self.function, attrs.asdict(runtime.notes))

    def sent(self) -> SentMap | None:
        """The map as it is sent to other machines; None where an object of the user's prevents it.

        `sent.open(shared, call, folder)` opens it there, with `shared` of this map.
        """
        from penchant.execution.workers.engines import SentMap
        from penchant.execution.workers.maps import encoded

        record = encoded(self)
        return None if record is None else SentMap(self.runtime.job, record)

    def answers(self, shards: Sequence[int]) -> Iterator[Arrays | None]:
        """Answers of shards, for an engine; the last is None where one raised: its job does it."""
        from penchant_numerics.device import limited_threads

        link, job = self.runtime.link, self.runtime.job
        if link is not None:
            link.holder = f"{job.id} {self.first + shards[0]}"
        with limited_threads(job.settings.threads):
            for shard in shards:
                try:
                    answer = self.run(shard)
                except KeyboardInterrupt:
                    raise
                except BaseException:  # not even sys.exit in a shard ends a process
                    yield None
                    return
                yield answer

    def compute(self, shard: int) -> Arrays:
        """Do one shard and store it."""
        arrays = self.run(shard)
        # The answer of a shard that maps itself is stored as a whole.
        if not self.runtime.inside:
            self.write(shard, arrays)
        return arrays

    def write(self, shard: int, arrays: Arrays) -> None:
        """Store the answer of a shard."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # A shard that a power cut takes is computed again; waiting for the disk costs more.
        write_arrays(self.path(shard), arrays, durable=False)

    def remove(self, shard: int) -> None:
        """Remove the answer of a shard that came too late."""
        self.path(shard).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def stored(self, shard: int) -> Arrays:
        """The answer of a shard that is stored; one that is damaged is computed again."""
        path = self.path(shard)
        try:
            if self.runtime.link is not None:
                self.runtime.link.fetch(path)
            arrays = read_arrays(path)
            # Whether it can be understood is found out while it can still be computed again.
            unpack(arrays)
        except (Error, KeyError, ValueError, TypeError):
            set_aside(path)
            return self.compute(shard)
        return arrays


class Pool(Protocol):
    """Does the shards of a map, in this process or elsewhere."""

    def map(self, whole: Map, shards: Sequence[int], /) -> Iterator[Arrays]:
        """Yield the answers of shards, in their order."""


def mapped(whole: Map) -> Iterator[dict[str, Any]]:
    """Yield the answers of all shards in order: those on disk are read, the others computed."""
    runtime = whole.runtime
    count = len(whole.items)
    missing = list(range(count)) if runtime.inside else whole.missing()
    computed: Iterator[Arrays] = map(whole.compute, missing)
    if runtime.pool is not None and missing:
        # The command starts workers for them.
        runtime.progress.tell("shards", 0, count)
        computed = runtime.pool.map(whole, missing)
    waiting = set(missing)
    for shard in range(count):
        # One stored shard at a time is held in memory.
        arrays = next(computed) if shard in waiting else whole.stored(shard)
        # A map inside a shard is not what the job counts.
        if not runtime.inside:
            runtime.progress.tell("shards", shard + 1, count)
        # Notes of a stored shard count as if it had just been done.
        answer, notes = unpack(arrays)
        runtime.notes.add(notes["warnings"], notes["conventions"])
        yield answer


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
