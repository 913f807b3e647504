"""Maps: the shards of a job, done in this process or by workers, in their order.

A pool does the shards of a map. It has `workers`, how many are done at a time, and
`map(function, setup, shards)`, which yields `function(setup, shard, worker)` in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import attrs
from penchant.execution.environment import policy
from penchant.execution.shards import Shard, ShardStore, pack, unpack
from penchant.experiments.jobs import Job
from penchant.results.job_folder import JobFolder

if TYPE_CHECKING:
    from penchant.execution.context import Context
    from penchant.execution.shards import Arrays

Function = Callable[["MapSetup", Shard, int], "Arrays"]


@attrs.define(eq=False)
class MapSetup:
    """What the shards of a map need.

    Attributes:
        job: The job that maps.
        folder: The run folder.
        shared: What all shards share.
        digest: A hash of that.
        store: Where shards are stored; None inside a shard, whose answer is stored as a whole.
    """

    job: Job
    folder: Path
    shared: Arrays
    digest: str
    store: ShardStore | None
    _context: Context | None = None

    def context(self, worker: int) -> Context:
        """The context that asks; elsewhere one that is made once."""
        from penchant.execution.context import Context

        if self._context is None:
            self._context = Context(self.job, self.folder, worker=worker)
        return self._context


class Pool(Protocol):
    """Does the shards of a map."""

    workers: int

    def map(
        self, function: Function, setup: MapSetup, shards: Sequence[Shard], /
    ) -> Iterator[Arrays]:
        """Yield `function(setup, shard, worker)` in the order of shards."""


class SerialPool:
    """Does every shard in this process, one after another."""

    workers = 1

    def map(
        self, function: Function, setup: MapSetup, shards: Sequence[Shard], /
    ) -> Iterator[Arrays]:
        """Yield the answers in order.

        Args:
            function: Called as `function(setup, shard, worker)`.
            setup: What all shards share.
            shards: What is mapped.

        Yields:
            What the function returned.
        """
        for shard in shards:
            yield function(setup, shard, 0)


def store_of(job: Job, folder: Path) -> ShardStore:
    """Where the shards of a job are stored."""
    return ShardStore(JobFolder.of(folder, job.id).shards, job.key)


def mapped(
    context: Context, shards: list[Shard], shared: Arrays, digest: str
) -> Iterator[dict[str, Any]]:
    """Yield the answers of shards in order: those on disk are read, the others computed.

    Args:
        context: The context that asks.
        shards: All shards of the map.
        shared: What they share.
        digest: A hash of that.

    Yields:
        What each shard's function returned.
    """
    job, folder = context._job, context._folder
    store = None if context._inside else store_of(job, folder)
    setup = MapSetup(job, folder, shared, digest, store, context)
    missing = store.missing(shards, digest) if store else shards
    # A single shard is not worth a worker.
    pool = context._pool if len(missing) > 1 else SerialPool()
    computed = pool.map(compute, setup, missing)
    absent = {shard.number for shard in missing}
    for done, shard in enumerate(shards, 1):
        # One stored shard at a time is held; one that is damaged is computed again.
        if shard.number in absent:
            arrays = next(computed)
        else:
            arrays = (store and store.read(shard, digest)) or compute(setup, shard, 0)
        context._tell("shards", done, len(shards))
        # Notes of a stored shard count as if it had just been done.
        answer, notes = unpack(arrays)
        context.conventions.update(notes["conventions"])
        for warning in notes["warnings"]:
            context.warn(warning)
        yield answer


def compute(setup: MapSetup, shard: Shard, worker: int) -> Arrays:
    """Do one shard and store it.

    Args:
        setup: Where its context comes from, and what its map shares.
        shard: The shard.
        worker: Number of the worker this is.

    Returns:
        Arrays, as a shard's file holds them.
    """
    arrays = run_shard(setup, shard, worker)
    if setup.store is not None:
        setup.store.write(shard, setup.digest, arrays)
    return arrays


def run_shard(setup: MapSetup, shard: Shard, worker: int) -> Arrays:
    """Do one shard; its answer has the same form whether it was done here or elsewhere.

    Args:
        setup: Where its context comes from, and what its map shares.
        shard: The shard.
        worker: Number of the worker this is.

    Returns:
        Arrays, as a shard's file holds them.
    """
    import torch

    outer = setup.context(worker)
    context = outer._for_shard(shard.scope)
    # A copy each: a shard that writes to it changes no other's numbers.
    context.shared = {
        name: torch.as_tensor(array, device="cpu").to(outer.device, copy=True)
        for name, array in setup.shared.items()
    }
    # Every shard begins with the same flags, whatever the one before has set.
    with policy(outer._job.settings, str(outer.device), context.warn):
        answer = shard.function(context, shard.item)
    notes = {"warnings": context.warnings, "conventions": context.conventions}
    return pack(answer, shard.function, notes)
