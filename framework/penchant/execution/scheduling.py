"""One queue for jobs and their shards, over workers that an executor starts.

An executor of workers is a *staff*, an object of few methods:

* `size`, how many workers there may be;
* `hire(index, bench)`, which starts worker number `index` somewhere and returns it at once; there
  it makes `bench(connection, index, threads)` and says `bench.do(setup, task)` for every item;
* `share(data)`, which makes bytes available to workers and returns what `give` is to be told;
* `ready(workers, seconds)`, which waits until some of them have something to say;
* `close()`.

A worker has `give(shared, task)`, `send(message)`, `receive()` (EOFError when it died), `ended()`,
and `stop(patience)`, which ends it and returns how it died; `blameless` is true where it was taken
away, so that no item is suspected.

Items that wait are given to workers that have nothing to do. When no items wait, a job that runs in
a worker lends its shards: so no worker is idle while another has shards left.
"""

from __future__ import annotations

import atexit
import collections
import pickle
import time
from collections.abc import Iterator, Sequence
from typing import Any

from penchant.components.targets import resolve
from penchant.errors import Error
from penchant.execution.pools import Function, Listener, WorkersDiedError, in_order
from penchant.execution.serving import Bench, as_error

SECONDS_BETWEEN_CHECKS = 1.0
STRIKES = 3  # an item that kills this many workers in a row fails


def start_pool(executor: Any, workers: int | None, threads: int) -> Any:
    """The pool of an executor.

    Args:
        executor: The component with its options.
        workers: How many workers; None where the executor is to choose.
        threads: Threads of each.

    Returns:
        What it started: a pool, or a staff that is given the queue.
    """
    what = f"executor {executor.name!r}"
    start = resolve(type(executor).target, what)
    started = start(executor, workers, threads)
    # Whoever can hire is a staff; a pool has a queue of its own.
    if hasattr(started, "hire"):
        return WorkerPool(started)
    return started


class WorkerPool:
    """Spreads items over workers; one that dies is replaced, its item redone."""

    def __init__(self, staff: Any) -> None:
        self.workers: int = staff.size
        self.listener: Listener | None = None
        self._staff = staff
        self._seats: dict[int, _Seat] = {}
        self._open: list[_Map] = []
        self._checked = 0.0
        self._unborn = 0  # workers that died before they could work, in a row
        # Workers may start processes of their own, so they are not daemons: whoever forgets to
        # close the pool must not wait for them for ever.
        atexit.register(self.close)

    def map(
        self,
        function: Function,
        setup: Any,
        items: Sequence[Any],
    ) -> Iterator[Any]:
        """Yield answers in the order of items, as soon as they and all before them are there.

        Args:
            function: Called as `function(setup, item, worker)`.
            setup: What all items share; a worker is sent it once.
            items: What is mapped.

        Yields:
            What the function returned.
        """
        found = self.unordered(function, setup, items)
        return in_order(found)

    def unordered(
        self,
        function: Function,
        setup: Any,
        items: Sequence[Any],
    ) -> Iterator[tuple[int, Any]]:
        """Yield (position, answer) as each item ends.

        Args:
            function: Called as `function(setup, item, worker)`.
            setup: What all items share; a worker is sent it once.
            items: What is mapped.

        Yields:
            The position of an item, and what the function returned.
        """
        # Pickled once: every worker is sent the same bytes, and knows them again.
        shared = self._staff.share(pickle.dumps(setup))
        mapped = _Map(shared, function, list(items))
        self._open.append(mapped)
        try:
            while mapped.left:
                self._dispatch(mapped)
                self._collect(mapped)
                while mapped.answers:
                    mapped.left -= 1
                    position, blob = mapped.answers.popleft()
                    yield position, pickle.loads(blob)
        finally:
            self._open.remove(mapped)
            self._abandon(mapped)

    def close(self) -> None:
        """Stop all workers: all begin to leave before one is waited for."""
        atexit.unregister(self.close)
        for seat in self._seats.values():
            seat.worker.leave()
        for seat in self._seats.values():
            seat.worker.stop()
        self._seats.clear()
        self._staff.close()

    # Giving work.

    def _dispatch(self, mapped: _Map) -> None:
        """Give waiting items to idle workers, and start workers while there are too few."""
        wanted = len(mapped.waiting)
        wanted += sum(len(lent.waiting) for lent in self._lent())
        # Whoever is there comes first: one that is starting may never come, as where the machine
        # that it was meant for has gone.
        for _, seat in sorted(self._seats.items()):
            if seat.mapped is not None:
                continue
            # Idle or starting: one who takes one item off the queue.
            wanted -= 1
            if seat.ready:
                self._employ(seat, mapped)
        for index in range(self.workers):
            if wanted <= 0:
                return
            if index not in self._seats:
                worker = self._staff.hire(index, Bench)
                self._seats[index] = _Seat(index, worker)
                wanted -= 1

    def _employ(self, seat: _Seat, mapped: _Map) -> None:
        """Give an idle worker the next item: of the map, else one that a job lends."""
        source: _Map | None = mapped
        if not mapped.waiting:
            waiting = [lent for lent in self._lent() if lent.waiting]
            able = [lent for lent in waiting if lent.shared is not None]
            # From whoever has most left: that job would end last.
            source = max(able, key=lambda lent: len(lent.waiting), default=None)
        if source is not None:
            item = source.waiting.popleft()
            seat.give(source, item)

    def _lent(self) -> Iterator[_Map]:
        for seat in self._seats.values():
            yield from seat.offers.values()

    # Hearing what workers say.

    def _collect(self, mapped: _Map) -> None:
        """Wait until a worker says something; an answer goes to the map that asked for it."""
        # Another map of this pool may have taken this one's answers already.
        if mapped.failure is None and not mapped.answers:
            self._listen()
        if mapped.failure is not None:
            raise mapped.failure

    def _listen(self) -> None:
        """Hear every worker that has something to say, and replace those that died."""
        seats = {id(seat.worker): seat for seat in self._seats.values()}
        workers = [seat.worker for seat in seats.values()]
        ready = self._staff.ready(workers, SECONDS_BETWEEN_CHECKS)
        for worker in ready:
            seat = seats[id(worker)]
            # One that was heard before may have stopped this one.
            current = self._seats.get(seat.index)
            if current is seat:
                self._hear(seat)
        self._bury()

    def _bury(self) -> None:
        """Notice workers that died without closing their connection."""
        now = time.monotonic()
        if now - self._checked < SECONDS_BETWEEN_CHECKS:
            return
        self._checked = now
        for seat in list(self._seats.values()):
            # What it said before it died is heard first.
            silent = not self._staff.ready([seat.worker], 0.0)
            # The death of another one may have stopped it.
            seated = self._seats.get(seat.index) is seat
            if silent and seated and seat.worker.ended():
                self._replace(seat)

    def _hear(self, seat: _Seat) -> None:
        """Take one message of a worker."""
        try:
            kind, *rest = seat.worker.receive()
        except (EOFError, OSError):
            self._replace(seat)
            return
        if kind == "ready":
            seat.ready = True
            self._unborn = 0
        elif kind == "told":
            if self.listener is not None:
                self.listener(rest[0])
        elif kind in ("done", "failed"):
            self._ended(seat, kind, rest)
        else:
            self._lending(seat, kind, rest)

    def _ended(self, seat: _Seat, kind: str, rest: list[Any]) -> None:
        """A worker is through with its item."""
        mapped, item = seat.mapped, seat.item
        assert mapped is not None
        seat.mapped = None
        self._withdraw_all(seat)
        if kind == "failed":
            text, details, expected = rest
            mapped.failure = as_error(text, details, expected)
        else:
            # An item that answers is not the one that kills; what died before it did so by chance.
            mapped.strikes[item] = 0
            mapped.answers.append((item, rest[0]))
        self._reply(mapped)

    def _replace(self, seat: _Seat) -> None:
        """A worker died: its item is done again, unless it has killed too many."""
        how = seat.worker.stop()
        del self._seats[seat.index]
        self._withdraw_all(seat)

        mapped = seat.mapped
        if mapped is None:
            # Idle workers may die; those that never come to work are nobody's luck.
            self._unborn += 0 if seat.ready else 1
            if self._unborn >= STRIKES:
                self._unborn = 0
                raise Error(f"{STRIKES} workers in a row died before they could work (last: {how})")
            return

        if not seat.worker.blameless:
            mapped.strikes[seat.item] += 1
        if mapped.strikes[seat.item] < STRIKES:
            mapped.waiting.appendleft(seat.item)
        else:
            found = f"shard {seat.item} killed {STRIKES} workers in a row (last: {how})"
            text = f"{found}; out of memory? try fewer workers"
            mapped.failure = WorkersDiedError(text, seat.item)
        self._reply(mapped)

    def _abandon(self, mapped: _Map) -> None:
        """Stop workers that are busy with a map whose answers nobody waits for any more."""
        # There is no way to take an item back: only the end of its process stops it.
        for index, seat in list(self._seats.items()):
            # What a stopped worker lent is abandoned in turn, and may stop this one.
            seated = self._seats.get(index) is seat
            if seat.mapped is mapped and seated:
                seat.worker.stop(0.0)
                del self._seats[index]
                self._withdraw_all(seat)

    # Lending.

    def _lending(
        self,
        seat: _Seat,
        kind: str,
        rest: list[Any],
    ) -> None:
        """What a job says of the map that it lends."""
        number = rest[0]
        if kind == "offer":
            nothing = [None] * rest[1]
            seat.offers[number] = _Map(None, None, nothing, seat, number)
            return
        lent = seat.offers.get(number)
        if lent is None:
            return
        if kind == "lent":
            lent.shared = self._staff.share(rest[1])
            lent.items = rest[2]
        elif kind == "next":
            lent.asked = True
            self._reply(lent)
        elif kind == "withdrawn":
            del seat.offers[number]
            self._abandon(lent)

    def _withdraw_all(self, seat: _Seat) -> None:
        """Nobody waits for what a job lent."""
        offers = list(seat.offers.values())
        seat.offers.clear()
        for lent in offers:
            self._abandon(lent)

    def _reply(self, lent: _Map) -> None:
        """Tell a job that asked what to do next with its map, as soon as there is something."""
        if lent.owner is None or not lent.asked:
            return
        reply: tuple[Any, ...]
        if lent.failure is not None:
            error = lent.failure
            details = getattr(error, "details", "")
            expected = isinstance(error, Error)
            reply = ("failed", str(error), details, expected)
        elif lent.answers:
            reply = ("answers", list(lent.answers))
            lent.answers.clear()
        elif not lent.waiting:
            return  # others have all that is left
        elif lent.shared is None and len(lent.waiting) > 1 and not self._is_busy():
            reply = ("lend",)
        else:
            item = lent.waiting.popleft()
            reply = ("do", item)

        lent.asked = False
        worker = lent.owner.worker
        worker.send(("reply", lent.number, *reply))

    def _is_busy(self) -> bool:
        """Do items wait that everybody should do before they help others?"""
        return any(mapped.waiting for mapped in self._open)


class _Map:
    """One map under way: the parent's own, or one that a job in a worker lends."""

    def __init__(
        self,
        shared: Any,
        function: Function | None,
        items: list[Any],
        owner: _Seat | None = None,
        number: int = 0,
    ) -> None:
        self.shared = shared
        self.function = function
        self.items = items
        self.owner = owner
        self.number = number
        self.asked = False
        self.left = len(items)
        self.waiting = collections.deque(range(self.left))
        self.answers: collections.deque[tuple[int, bytes]] = collections.deque()
        self.strikes: collections.Counter[int] = collections.Counter()
        self.failure: Exception | None = None

    def task(self, item: int) -> bytes:
        """The function and an item, as they are sent."""
        if self.function is None:
            task: bytes = self.items[item]
            return task
        pair = (self.function, self.items[item])
        return pickle.dumps(pair)


class _Seat:
    """A worker, what it is busy with, and what it lends."""

    def __init__(self, index: int, worker: Any) -> None:
        self.index = index
        self.worker = worker
        self.ready = False
        self.item = 0
        self.mapped: _Map | None = None
        self.offers: dict[int, _Map] = {}

    def give(self, mapped: _Map, item: int) -> None:
        """Send an item."""
        self.mapped = mapped
        self.item = item
        task = mapped.task(item)
        self.worker.give(mapped.shared, task)
