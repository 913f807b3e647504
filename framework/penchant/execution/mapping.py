"""Maps: the shards of a job, done in this process or by workers, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penchant.execution import pools
from penchant.execution.environment import policy
from penchant.execution.shards import Shard, Shelf, in_order, pack, unpack
from penchant.experiments.jobs import Job

if TYPE_CHECKING:
    from penchant.execution.context import Context


class MapSetup:
    """What the shards of a map need, here or in a worker, where its context is made once."""

    _context: Context | None = None

    def __init__(
        self,
        job: Job,
        folder: Path,
        shared: dict[str, Any],
        context: Context | None = None,
    ) -> None:
        self.job = job
        self.folder = folder
        self.shared = shared
        self._context = context

    def __getstate__(self) -> dict[str, Any]:
        """What is sent: a context belongs to its process."""
        return {
            "job": self.job,
            "folder": self.folder,
            "shared": self.shared,
        }

    def context(self, worker: int) -> Context:
        """The context that asks, or one of this worker."""
        from penchant.execution.context import Context

        if self._context is None:
            self._context = Context(self.job, self.folder, worker=worker)
        return self._context


def mapped(
    context: Context,
    shards: list[Shard],
    shared: dict[str, Any],
    digest: str,
) -> Iterator[dict[str, Any]]:
    """Yield the answers of shards in order: those on disk are read, the others computed and kept.

    Args:
        context: The context that asks.
        shards: All shards of the map.
        shared: What they share.
        digest: A hash of that.

    Yields:
        What each shard's function returned.
    """
    job, folder = context._job, context._folder
    place_of_job = folder / "jobs" / job.id
    shelf = Shelf(place_of_job / "shards", job.key)
    setup = MapSetup(job, folder, shared, context)
    # What a map inside a shard finds is part of that shard's answer, and kept with it.
    stored: set[int] = set()
    if not context._inside:
        stored = {shard.number for shard in shards if shelf.holds(shard, digest)}
    missing = [shard for shard in shards if shard.number not in stored]
    # A single shard is not worth a worker.
    pool = context._pool if len(missing) > 1 else pools.SerialPool()
    # Stored shards are read, the others computed; all come in the order of shards.
    computed = pool.map(run_shard, setup, missing)
    found = in_order(
        shards,
        stored,
        shelf.read,
        computed,
        lambda shard: run_shard(setup, shard, 0),
    )
    for done, (shard, arrays, is_new) in enumerate(found, 1):
        if is_new and not context._inside:
            shelf.keep(shard, digest, arrays)
        context._tell("shards", done, len(shards))
        # Notes of a stored shard are told as if it had just been done.
        answer, notes = unpack(arrays)
        context.conventions.update(notes["conventions"])
        for warning in notes["warnings"]:
            context.warn(warning)
        yield answer


def run_shard(
    setup: MapSetup,
    shard: Shard,
    worker: int,
) -> dict[str, Any]:
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
    shared = {}
    for name, array in setup.shared.items():
        # A copy each: a shard that writes to it changes no other's numbers.
        tensor = torch.as_tensor(array, device="cpu")
        shared[name] = tensor.to(outer.device, copy=True)
    context.shared = shared
    # Every shard begins with the same flags, whatever the one before has set.
    with policy(outer._job.settings, str(outer.device), context.warn):
        answer = shard.function(context, shard.item)
    notes = {"warnings": context.warnings, "conventions": context.conventions}
    return pack(answer, shard.function, notes)
