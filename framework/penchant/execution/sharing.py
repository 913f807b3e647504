"""The pool of a job whose shards other workers may do as well."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from penchant.execution.mapping import Function, MapSetup
from penchant.execution.maps import PublishedMap, publish
from penchant.execution.shards import Shard
from penchant.execution.tasks import Claim, Pause, Queue, released

if TYPE_CHECKING:
    from penchant.execution.shards import Arrays


class SharingPool:
    """Does the shards of a job in this process, and publishes them when other workers are idle.

    Args:
        queue: The tasks of the run folder.
        worker: The worker that has the job.
        claim: Its claim of the job.
        index: Its number among the devices.
        attempts: How often a shard may crash its worker.
        workers: How many shards are done at a time, as far as is known.
        tend: Called with the number of shards while others do all of them; None: this worker does
            shards as well.
    """

    def __init__(
        self,
        queue: Queue,
        worker: str,
        claim: Claim,
        *,
        index: int,
        attempts: int,
        workers: int = 1,
        tend: Callable[[int], None] | None = None,
    ) -> None:
        self.queue = queue
        self.worker = worker
        self.index = index
        self.attempts = attempts
        self.workers = workers
        self._claim = claim
        self._tend = tend

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
        left = collections.deque(shards)
        published: PublishedMap | None = None
        try:
            while left:
                if published is None and len(left) > 1 and (self._tend or self.queue.has_idle()):
                    published = publish(self.queue, setup, list(left), self.attempts)
                shard = left.popleft()
                if published is None:
                    yield function(setup, shard, self.index)
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
        setup = published.setup
        assert setup.store is not None
        pause = Pause()
        while True:
            if setup.store.path(first).exists():
                # One that is damaged is computed again.
                return setup.store.read(first, setup.digest) or function(setup, first, self.index)
            published.check()
            if self._tend is not None:
                self._tend(count)
                pause.wait()
                continue
            taken = published.take(self.worker)
            if taken is None:
                pause.wait()
                continue
            shard, claim = taken
            with released(claim):
                arrays = function(setup, shard, self.index)
                claim.finish()
            if shard is first:
                return arrays
            pause.reset()
