"""The shards of a job on a cluster: its task does some itself, and other nodes the rest.

Only as many are sent as the cluster has room for, so that a full one does no more than the jobs.
"""

from __future__ import annotations

import collections
import concurrent.futures
import pickle
import time
from collections.abc import Iterator, Sequence
from typing import Any

import penchant
import ray

from penchant_ray.executors import tasks
from penchant_ray.executors.tasks import Command, Setup

SECONDS_BETWEEN_QUESTIONS = 0.5  # about room in the cluster
SECONDS_OF_OWN = 0.05  # of short shards that a job does before it looks at others
PATIENCE = 3.0  # times the longest shards so far, until one is done here that is expected
BYTES_HELD = 200_000_000  # of answers that came before those that the probe waits for

# A node that lacks this package can say so.
ray.cloudpickle.register_pickle_by_value(tasks)


class ShardPool:
    """Gives the shards of a job to the cluster."""

    def __init__(self, command: Command, setup: Setup) -> None:
        self._command = command
        self._setup = setup

    def map(self, whole: Any, shards: Sequence[int]) -> Iterator[Any]:
        """Yield the answers of shards, in their order."""
        spread = Spread(whole, shards, self._command, self._setup)
        try:
            for shard in shards:
                yield spread.answer(shard)
        finally:
            spread.close()


class Spread:
    """The shards of one map: to do, on other nodes, and done."""

    def __init__(self, whole: Any, shards: Sequence[int], command: Command, setup: Setup) -> None:
        self._whole = whole
        self._command = command
        self._setup = setup
        self._todo = collections.deque(shards)
        self._running: dict[Any, tuple[Any, list[int]]] = {}  # futures: reference, shards
        self._done: dict[int, Any] = {}
        self._own: dict[str, Any] = {}  # answers of this process that are not stored yet
        self._deaths: collections.Counter[int] = collections.Counter()
        self._held = 0  # bytes of answers
        self._seconds = 0.0  # that one shard has taken
        self._longest = 1.0  # seconds that shards of one task have taken
        self._room = 0
        self._asked = self._stored = 0.0
        sent = whole.sent() if len(shards) > 1 else None
        self._sent: list[Any] = []
        if sent is not None:
            self._sent = [tasks.put(pickle.dumps(sent)), tasks.put(whole.shared)]
            self._remote: Any = ray.remote(tasks.do_shards).options(
                max_retries=0, scheduling_strategy="SPREAD", **setup.resources
            )

    def answer(self, shard: int) -> Any:
        """The answer of a shard; until it is there, others are sent and done."""
        while shard not in self._done:
            self._send()
            self._collect(0.0)
            if shard in self._done:
                break
            if self._may_compute(shard):
                self._compute()
            elif not self._collect(PATIENCE * self._longest):
                self._take_back(shard)
        arrays = self._done.pop(shard)
        self._held -= tasks.held_bytes(arrays)
        return arrays

    def _may_compute(self, shard: int) -> bool:
        """Whether there is room for an answer; without it, only for the one that is waited for."""
        if self._held >= BYTES_HELD and shard in self._todo:
            # shards that came back from other nodes may stand before it
            self._todo.remove(shard)
            self._todo.appendleft(shard)
            return True
        return bool(self._todo) and self._held < BYTES_HELD

    def _send(self) -> None:
        """Send shards to other nodes, two tasks for each that has room."""
        if not self._sent or len(self._todo) < 2:
            return
        now = time.monotonic()
        if now - self._asked > SECONDS_BETWEEN_QUESTIONS:
            self._asked = now
            self._room = self._command("room", self._whole.job, len(self._running))
        while self._held < BYTES_HELD and len(self._running) < 2 * self._room and self._todo:
            batch = [self._todo.popleft() for _ in range(self._size())]
            task = self._remote.remote(self._sent, batch, self._setup)
            self._running[task.future()] = task, batch

    def _size(self) -> int:
        """How many shards a task is given: less towards the end, and one that a node died with."""
        if self._deaths[self._todo[0]] or not self._seconds:
            return 1
        share = len(self._todo) // (2 * self._room + 2)
        return max(1, min(share, int(tasks.SECONDS_AT_ONCE / self._seconds)))

    def _collect(self, seconds: float) -> bool:
        """Take what other nodes have done, and wait for the first of them."""
        done, _ = concurrent.futures.wait(self._running, seconds, "FIRST_COMPLETED")
        for future in done:
            task, batch = self._running.pop(future)
            try:
                found = future.result()
            except ray.exceptions.RayError as error:
                self._died(batch, error)
                continue
            if isinstance(found, str):
                raise penchant.Error(found)
            answers, seconds = found
            self._measured(seconds, len(answers))
            names = [self._whole.path(shard).name for shard in batch[: len(answers)]]
            self._command.store(self._whole.job, names, task)
            for shard, arrays in zip(batch, answers):
                if arrays is None:
                    arrays = self._whole.run(shard)  # raises here what it raised there
                self._keep(shard, arrays)
            self._todo.extendleft(reversed(batch[len(answers) :]))
        return bool(done)

    def _died(self, batch: list[int], error: Exception) -> None:
        """Do shards again whose process or node died, unless they were begun too often."""
        self._deaths.update(batch)
        self._todo.extendleft(reversed(batch))
        times = self._deaths[batch[0]]
        if len(batch) == 1 and times >= self._setup.attempts:
            number = self._whole.first + batch[0]
            how = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            raise penchant.Error(f"shard {number} crashed its worker {times} times (last: {how})")

    def _take_back(self, shard: int) -> None:
        """Do here what was sent: no node has had room, or the one that has it is slow."""
        for future, (task, batch) in list(self._running.items()):
            if shard in batch:
                del self._running[future]
                ray.cancel(task)
                self._todo.extendleft(reversed(batch))
        self._longest *= 2

    def _compute(self) -> None:
        """Do the next shard here, or some if they are short."""
        began = time.monotonic()
        count = 0
        while self._todo and time.monotonic() - began < SECONDS_OF_OWN:
            shard = self._todo.popleft()
            arrays = self._whole.run(shard)
            self._keep(shard, arrays)
            self._own[self._whole.path(shard).name] = arrays
            count += 1
            if self._held >= BYTES_HELD:
                break
        self._measured(time.monotonic() - began, count)
        if time.monotonic() - self._stored > tasks.SECONDS_AT_ONCE:
            self._store_own()

    def _store_own(self) -> None:
        self._stored = time.monotonic()
        if self._own:
            self._command.store(self._whole.job, list(self._own), list(self._own.values()))
            self._own = {}

    def _keep(self, shard: int, arrays: Any) -> None:
        self._done[shard] = arrays
        self._held += tasks.held_bytes(arrays)

    def _measured(self, seconds: float, count: int) -> None:
        self._seconds = seconds / max(1, count)
        self._longest = max(self._longest, seconds)

    def close(self) -> None:
        """Leave nothing behind: a probe may stop in the middle, or a shard may raise."""
        for task, _ in self._running.values():
            ray.cancel(task)
        self._running.clear()
        self._store_own()
