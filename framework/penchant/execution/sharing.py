"""The pool of a job whose shards other workers may do as well."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penchant.execution.mapping import Function, MapSetup
from penchant.execution.maps import PublishedMap, publish
from penchant.execution.shards import Shard
from penchant.execution.tasks import Claim, Pause, released

if TYPE_CHECKING:
    from penchant.execution.shards import Arrays
    from penchant.execution.worker import Worker


class SharingPool:
    """Does the shards of a worker's job, and publishes them when other workers are idle.

    A worker with `tend` leaves all shards to others.
    """

    def __init__(self, worker: Worker, claim: Claim) -> None:
        self._worker = worker
        self._claim = claim
        self.workers = worker.workers

    def map(
        self, function: Function, setup: MapSetup, shards: Sequence[Shard], /
    ) -> Iterator[Arrays]:
        """Yield the answers in order, computed here or elsewhere.

        Args:
            function: Called as `function(setup, shard, worker)`; it stores its answer.
            setup: What all shards share.
            shards: What is mapped.

        Yields:
            What the function returned.
        """
        worker = self._worker
        left = collections.deque(shards)
        published: PublishedMap | None = None
        try:
            while left:
                if published is None and len(left) > 1 and (worker.tend or worker.queue.has_idle()):
                    published = publish(worker.queue, setup, list(left), worker.assignment.attempts)
                shard = left.popleft()
                if published is None:
                    yield function(setup, shard, worker.index)
                else:
                    yield self._answer(function, published, shard, len(shards))
                # What gets further is not what crashes.
                self._claim.forgive()
        finally:
            if published is not None:
                published.close()

    def _answer(
        self, function: Function, published: PublishedMap, first: Shard, count: int
    ) -> Arrays:
        """The answer of a shard, which is waited for; meanwhile others are done."""
        worker, setup = self._worker, published.setup
        assert setup.store is not None
        pause = Pause()
        while True:
            if setup.store.has(first):
                # One that is damaged is computed again.
                return setup.store.read(first, setup.digest) or function(setup, first, worker.index)
            published.check()
            if worker.tend is not None:
                worker.tend(count)
                pause.wait()
                continue
            taken = published.take(worker.name)
            if taken is None:
                pause.wait()
                continue
            shard, claim = taken
            with released(claim):
                arrays = function(setup, shard, worker.index)
                claim.finish()
            if shard is first:
                return arrays
            pause.reset()
