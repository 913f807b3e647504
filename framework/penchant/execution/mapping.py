"""Maps: the shards of a job, done in this process or by workers, in their order."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import attrs
from penchant.errors import Error
from penchant.execution.environment import policy
from penchant.execution.shards import Arrays, pack, unpack
from penchant.experiments.identity import plain
from penchant.results.files import read_arrays, set_aside, write_arrays
from penchant.results.job_folder import JobFolder

if TYPE_CHECKING:
    from penchant.execution.context import Context


@attrs.frozen(eq=False)
class Map:
    """The shards of one call of `context.map`: shard i calls the function with item i."""

    context: Context  # the one that maps; in another worker, one of the same job and scope
    function: Callable[..., Any]
    items: Sequence[Any]  # JSON-like values, or ranges of networks
    first: int = 0  # how many shards the job had before: numbers of shards name their files
    shared: Arrays = attrs.field(factory=dict)  # what all shards share
    digest: str = ""  # a hash of that; empty without any

    @functools.cached_property
    def _identity(self) -> list[str]:
        """What all shards of this map have in common, and no others have."""
        scope = self.context._scope
        name = f"{self.function.__module__}:{self.function.__qualname__}"
        # An architecture may hold arrays, whose text is cut; its options go in by content.
        replaced = scope.architecture
        network = "" if replaced is None else f"{replaced.name} {plain(replaced.options())}"
        rest = repr(attrs.evolve(scope, architecture=None))
        return [self.context._job.key, name, rest, network, self.digest]

    @functools.cached_property
    def folder(self) -> Path:
        """Where the answers of shards are stored."""
        return JobFolder.of(self.context._folder, self.context._job.id).shards

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
        if not self.folder.is_dir():
            return list(every)
        stored = set(self.folder.iterdir())
        return [shard for shard in every if self.path(shard) not in stored]

    def run(self, shard: int) -> Arrays:
        """Do one shard; its answer has the same form whether it was done here or elsewhere."""
        import torch

        context = self.context._for_shard()
        # A copy each: a shard that writes to it changes no other's numbers.
        context.shared = {
            name: torch.as_tensor(array, device="cpu").to(context.device, copy=True)
            for name, array in self.shared.items()
        }
        # Every shard begins with the same flags, whatever the one before has set.
        with policy(context._job.settings, context.device, context.warn):
            answer = self.function(context, self.items[shard])
        notes = {"warnings": context.warnings, "conventions": context.conventions}
        return pack(answer, self.function, notes)

    def compute(self, shard: int) -> Arrays:
        """Do one shard and store it."""
        arrays = self.run(shard)
        # The answer of a shard that maps itself is stored as a whole.
        if not self.context._inside:
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
    context = whole.context
    count = len(whole.items)
    missing = list(range(count)) if context._inside else whole.missing()
    computed: Iterator[Arrays] = map(whole.compute, missing)
    # A single shard is not worth a worker.
    if context._pool is not None and len(missing) > 1:
        # The command starts workers for them.
        context._tell("shards", 0, count)
        computed = context._pool.map(whole, missing)
    waiting = set(missing)
    for shard in range(count):
        # One stored shard at a time is held in memory.
        arrays = next(computed) if shard in waiting else whole.stored(shard)
        context._tell("shards", shard + 1, count)
        # Notes of a stored shard count as if it had just been done.
        answer, notes = unpack(arrays)
        context.conventions.update(notes["conventions"])
        for warning in notes["warnings"]:
            context.warn(warning)
        yield answer
