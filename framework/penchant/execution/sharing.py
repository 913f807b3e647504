"""Pools of jobs whose shards other workers may do as well."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penchant.execution.mapping import MapSetup
from penchant.execution.maps import PublishedMap, publish
from penchant.execution.pauses import Pause
from penchant.execution.pools import Function
from penchant.execution.shards import Shard
from penchant.execution.tasks import Claim, Queue, released


class SharingPool:
    """Does the shards of a job in this process, and publishes them when other workers are idle."""

    workers = 1

    def __init__(
        self,
        queue: Queue,
        worker: str,
        *,
        index: int = 0,
        attempts: int,
        job: Claim | None = None,
    ) -> None:
        self.queue = queue
        self.worker = worker
        self.index = index
        self.attempts = attempts
        self._job = job

    def map(
        self,
        function: Function,
        setup: MapSetup,
        shards: Sequence[Shard],
    ) -> Iterator[dict[str, Any]]:
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
                if published is None and len(left) > 1 and self._is_wanted():
                    published = publish(self.queue, setup, list(left), self.attempts)
                if published is None:
                    yield function(setup, left.popleft(), self.index)
                else:
                    yield self._next(function, published, left.popleft())
                # What gets further is not what crashes.
                if self._job is not None:
                    self._job.forgive()
        finally:
            if published is not None:
                published.close()

    def _is_wanted(self) -> bool:
        return self.queue.has_idle()

    def _next(self, function: Function, published: PublishedMap, first: Shard) -> Any:
        """The answer of the first shard that is left; others are done while it is waited for."""
        setup = published.setup
        assert setup.store is not None
        pause = Pause()
        while True:
            if setup.stored(first):
                # One that is damaged is computed again.
                return setup.store.read(first) or function(setup, first, self.index)
            published.check()
            if self._help(function, published):
                pause.reset()
            else:
                self._wait(pause)

    def _help(self, function: Function, published: PublishedMap) -> bool:
        """Do a shard that no other worker has; False where there is none."""
        taken = published.take(self.worker)
        if taken is None:
            return False
        shard, claim = taken
        with released(claim):
            function(published.setup, shard, self.index)
            claim.finish()
        return True

    def _wait(self, pause: Pause) -> None:
        pause.wait()


class WaitingPool(SharingPool):
    """Leaves the shards of a job in this process to workers, and waits for them."""

    def __init__(
        self,
        queue: Queue,
        worker: str,
        *,
        workers: int,
        attempts: int,
        tend: Callable[[int], None],
    ) -> None:
        super().__init__(queue, worker, attempts=attempts)
        self.workers = workers
        self._tend = tend
        self._shards = 0

    def map(
        self,
        function: Function,
        setup: MapSetup,
        shards: Sequence[Shard],
    ) -> Iterator[dict[str, Any]]:
        """Yield the answers in order, computed elsewhere.

        Args:
            function: What other workers call for each shard.
            setup: What all shards share.
            shards: What is mapped.

        Yields:
            What the function returned.
        """
        self._shards = len(shards)
        return super().map(function, setup, shards)

    def _is_wanted(self) -> bool:
        return True

    def _help(self, function: Function, published: PublishedMap) -> bool:
        return False

    def _wait(self, pause: Pause) -> None:
        self._tend(self._shards)
        pause.wait()
