"""Maps: the shards of a job, done in this process or by workers, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs
from penchant.execution.environment import policy
from penchant.execution.shards import Arrays, Shard, ShardStore, pack, unpack

if TYPE_CHECKING:
    from penchant.execution.context import Context


@attrs.frozen(eq=False)
class Map:
    """What the shards of a map need.

    Attributes:
        context: The context that maps; in another worker, one of the same job.
        shared: Arrays that all shards share.
        store: Where shards are stored; None inside a shard, whose answer is stored as a whole.
    """

    context: Context
    shared: Arrays
    store: ShardStore | None

    def run(self, shard: Shard) -> Arrays:
        """Do one shard; its answer has the same form whether it was done here or elsewhere."""
        import torch

        context = self.context._for_shard(shard.scope)
        # A copy each: a shard that writes to it changes no other's numbers.
        context.shared = {
            name: torch.as_tensor(array, device="cpu").to(context.device, copy=True)
            for name, array in self.shared.items()
        }
        # Every shard begins with the same flags, whatever the one before has set.
        with policy(context._job.settings, context._device, context.warn):
            answer = shard.function(context, shard.item)
        notes = {"warnings": context.warnings, "conventions": context.conventions}
        return pack(answer, shard.function, notes)

    def compute(self, shard: Shard) -> Arrays:
        """Do one shard and store it."""
        arrays = self.run(shard)
        if self.store is not None:
            self.store.write(shard, arrays)
        return arrays

    def stored(self, shard: Shard) -> Arrays:
        """The answer of a shard that is stored; one that is damaged is computed again."""
        return (self.store and self.store.read(shard)) or self.compute(shard)


class Pool(Protocol):
    """Does the shards of a map."""

    def map(self, shared_map: Map, shards: Sequence[Shard], /) -> Iterator[Arrays]:
        """Yield the answers of shards, in their order."""


class SerialPool:
    """Does every shard in this process, one after another."""

    def map(self, shared_map: Map, shards: Sequence[Shard], /) -> Iterator[Arrays]:
        """Yield the answers of shards, in their order."""
        return map(shared_map.compute, shards)


def mapped(shared_map: Map, shards: list[Shard]) -> Iterator[dict[str, Any]]:
    """Yield the answers of shards in order: those on disk are read, the others computed."""
    context, store = shared_map.context, shared_map.store
    missing = store.missing(shards) if store else shards
    # A single shard is not worth a worker.
    pool = context._pool if len(missing) > 1 else SerialPool()
    computed = pool.map(shared_map, missing)
    numbers = {shard.number for shard in missing}
    for done, shard in enumerate(shards, 1):
        # One stored shard at a time is held in memory.
        arrays = next(computed) if shard.number in numbers else shared_map.stored(shard)
        context._tell("shards", done, len(shards))
        # Notes of a stored shard count as if it had just been done.
        answer, notes = unpack(arrays)
        context.conventions.update(notes["conventions"])
        for warning in notes["warnings"]:
            context.warn(warning)
        yield answer
