"""Pools: map a function over items, in this process or in several.

A pool has `workers`, `map(function, setup, items)`, which yields `function(setup, item, worker)` in
the order of items, and `unordered(...)`, which yields (position, answer) as each ends. The setup is
sent to a worker once. Several maps may be under way at a time; one that is abandoned, or fails,
stops the workers that are busy with it. What workers report is given to `listener`.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from penchant.errors import Error

SECONDS_BETWEEN_CHECKS = 1.0
STRIKES = 3  # an item that kills this many workers in a row fails
_report: Callable[[Any], None] | None = None  # how a worker process tells its parent something


class RemoteError(Exception):
    """What a worker raised: the text of the error, and its traceback in `details`."""

    def __init__(self, text: str, details: str) -> None:
        super().__init__(text)
        self.details = details


class WorkersDiedError(Error):
    """An item killed worker after worker; `item` is its position in the map."""

    def __init__(self, text: str, item: int) -> None:
        super().__init__(text)
        self.item = item


def report(message: Any) -> bool:
    """Tell the parent's listener something; False where this is not a worker process."""
    if _report is None:
        return False
    _report(message)
    return True


class SerialPool:
    """Runs every item in this process, one after another."""

    workers = 1

    def __init__(self, options: Any = None, workers: int = 1, threads: int = 1) -> None:
        # Called like every executor; in one process there is nothing to choose.
        self.listener: Callable[[Any], None] | None = None

    def map(self, function: Callable[..., Any], setup: Any, items: Sequence[Any]) -> Iterator[Any]:
        """Yield the answers in order.

        Args:
            function: Called as `function(setup, item, worker)`.
            setup: What all items share; a worker is sent it once.
            items: What is mapped.

        Yields:
            What the function returned.
        """
        for item in items:
            yield function(setup, item, 0)

    def unordered(
        self, function: Callable[..., Any], setup: Any, items: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        """Yield (position, answer), here in order as well.

        Args:
            function: Called as `function(setup, item, worker)`.
            setup: What all items share; a worker is sent it once.
            items: What is mapped.

        Yields:
            The position of an item, and what the function returned.
        """
        return enumerate(self.map(function, setup, items))

    def close(self) -> None:
        """Nothing to leave."""


class ProcessPool:
    """Worker processes, started when first needed; one that dies is replaced, its item redone."""

    def __init__(self, options: Any, workers: int, threads: int) -> None:
        self.workers = workers
        self.threads = threads
        self.listener: Callable[[Any], None] | None = None
        self._workers: dict[int, _Worker] = {}
        # Workers may start processes of their own, so they are not daemons: whoever forgets to
        # close the pool must not wait for them for ever.
        atexit.register(self.close)

    def map(self, function: Callable[..., Any], setup: Any, items: Sequence[Any]) -> Iterator[Any]:
        """Yield answers in the order of items, as soon as they and all before them are there.

        Args:
            function: Called as `function(setup, item, worker)`.
            setup: What all items share; a worker is sent it once.
            items: What is mapped.

        Yields:
            What the function returned.
        """
        # Answers that came before their turn wait here.
        waiting: dict[int, Any] = {}
        following = 0
        for position, answer in self.unordered(function, setup, items):
            waiting[position] = answer
            while following in waiting:
                yield waiting.pop(following)
                following += 1

    def unordered(
        self, function: Callable[..., Any], setup: Any, items: Sequence[Any]
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
        mapped = _Map(function, pickle.dumps(setup), list(items))
        try:
            while mapped.left:
                self._dispatch(mapped)
                self._collect(mapped)
                while mapped.answers:
                    mapped.left -= 1
                    yield mapped.answers.popleft()
        finally:
            self._abandon(mapped)

    def _dispatch(self, mapped: _Map) -> None:
        """Give waiting items to idle workers, and start workers while there are too few."""
        for index in range(self.workers):
            if not mapped.waiting:
                return
            worker = self._workers.get(index)
            if worker is None:
                worker = self._workers[index] = _Worker(index, self.threads)
            if worker.mapped is None:
                worker.give(mapped, mapped.waiting.popleft())

    def _collect(self, mapped: _Map) -> None:
        """Wait until a worker answers; an answer goes to the map that asked for it."""
        # Another map of this pool may have taken this one's answers already.
        if mapped.failure is None and not mapped.answers:
            busy = {}
            for worker in self._workers.values():
                if worker.mapped is not None:
                    busy[worker.connection] = worker
            ready = multiprocessing.connection.wait(list(busy), SECONDS_BETWEEN_CHECKS)
            for connection in ready:
                self._hear(busy[connection])  # type: ignore[index]
            if not ready:
                self._bury(busy.values())
        if mapped.failure is not None:
            raise mapped.failure

    def _bury(self, workers: Iterable[_Worker]) -> None:
        """Notice workers that died while a child of theirs holds their pipe open."""
        for worker in workers:
            dead = worker.process.exitcode is not None
            if dead and worker.mapped is not None:
                self._replace(worker, worker.mapped, worker.item)

    def _hear(self, worker: _Worker) -> None:
        """Take one message of a worker: an answer, a failure, a report, or its death."""
        mapped, item = worker.mapped, worker.item
        assert mapped is not None
        try:
            outcome, *answer = worker.connection.recv()
        except (EOFError, OSError):
            self._replace(worker, mapped, item)
            return
        # A report on the way: the worker is still busy.
        if outcome == "told":
            if self.listener is not None:
                self.listener(answer[0])
            return
        worker.mapped = None
        if outcome == "failed":
            text, details, expected = answer
            mapped.failure = Error(text) if expected else RemoteError(text, details)
            return
        # An item that answers is not the one that kills; what died before it did so by chance.
        mapped.strikes[item] = 0
        mapped.answers.append((item, pickle.loads(answer[0])))

    def _replace(self, worker: _Worker, mapped: _Map, item: int) -> None:
        """A worker died: its item is done again, unless it has killed too many."""
        code = worker.stop()
        del self._workers[worker.index]
        mapped.strikes[item] += 1
        if mapped.strikes[item] < STRIKES:
            mapped.waiting.appendleft(item)
            return
        how = f"exit code {code}"
        # A negative exit code is the number of the signal that ended the process.
        if code is not None and code < 0:
            how = f"signal {signal.Signals(-code).name}"
        found = f"shard {item} killed {STRIKES} workers in a row (last: {how})"
        text = f"{found}; out of memory? try fewer workers"
        mapped.failure = WorkersDiedError(text, item)

    def _abandon(self, mapped: _Map) -> None:
        """Stop workers that are busy with a map whose answers nobody waits for any more."""
        # There is no way to take an item back: only the end of its process stops it.
        for index, worker in list(self._workers.items()):
            if worker.mapped is mapped:
                worker.stop(patience=0.0)
                del self._workers[index]

    def close(self) -> None:
        """Stop all workers: all begin to leave before one is waited for."""
        for worker in self._workers.values():
            worker.connection.close()
        for worker in self._workers.values():
            worker.stop()
        self._workers.clear()
        atexit.unregister(self.close)


class _Map:
    """One map under way."""

    def __init__(self, function: Callable[..., Any], setup: bytes, items: list[Any]) -> None:
        self.function = function
        self.setup = setup
        self.items = items
        self.left = len(items)
        numbers = range(self.left)
        self.waiting = collections.deque(numbers)
        self.answers: collections.deque[tuple[int, Any]] = collections.deque()
        self.strikes: collections.Counter[int] = collections.Counter()
        self.failure: Exception | None = None


class _Worker:
    """One process and the pipe to it; `mapped` and `item` are what it is busy with."""

    def __init__(self, index: int, threads: int) -> None:
        self.index = index
        self.item = 0
        self.mapped: _Map | None = None
        self.setup: bytes | None = None
        # Spawned, not forked: threads of torch and CUDA do not survive a fork.
        context = multiprocessing.get_context("spawn")
        self.connection, child = context.Pipe()
        self.process = context.Process(
            target=serve,
            args=(child, index, threads),
            name=f"penchant-{index}",
        )
        # Libraries read their number of threads when they are loaded.
        count = str(threads)
        with _plain_main(), _environment(OMP_NUM_THREADS=count, OPENBLAS_NUM_THREADS=count):
            self.process.start()
        child.close()

    def give(self, mapped: _Map, item: int) -> None:
        """Send an item, and the setup where the worker has another one."""
        setup = None if self.setup is mapped.setup else mapped.setup
        self.mapped = mapped
        self.item = item
        self.setup = mapped.setup
        task = (mapped.function, mapped.items[item])
        # A worker that died in the meantime is noticed when its answer is awaited.
        with contextlib.suppress(OSError):
            self.connection.send((setup, pickle.dumps(task)))

    def stop(self, patience: float = 1.0) -> int | None:
        """End the process, by force where it does not leave by itself; returns its exit code."""
        # A worker leaves when its pipe closes.
        self.connection.close()
        self.process.join(patience)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        return self.process.exitcode


@contextlib.contextmanager
def _plain_main() -> Iterator[None]:
    """Workers do not import the user's script: it needs no guard against running twice."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Environment variables for the processes started inside."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def serve(connection: Any, index: int, threads: int) -> None:
    """The life of a worker: take an item, answer, until the pipe closes.

    Args:
        connection: The pipe to the parent.
        index: Number of the worker.
        threads: Threads it may use.
    """
    global _report
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_leave_with, args=(parent.sentinel,), daemon=True).start()
    from penchant.execution.environment import limited

    _report = lambda message: connection.send(("told", message))  # noqa: E731
    setup: Any = None
    with limited(threads):
        while True:
            try:
                blob, task = connection.recv()
            except (EOFError, OSError):
                return
            try:
                setup = setup if blob is None else pickle.loads(blob)
                answer = _answer(task, setup, index)
            except BaseException as error:  # not even sys.exit in a probe ends a worker
                answer = _failure(error)
            try:
                connection.send(answer)
            except OSError:
                return


def _answer(task: bytes, setup: Any, index: int) -> tuple[Any, ...]:
    function, item = pickle.loads(task)
    found = function(setup, item, index)
    # Pickled here, so that what cannot be sent is a failure of the item, not of the worker.
    return ("done", pickle.dumps(found))


def _failure(error: BaseException) -> tuple[Any, ...]:
    # Sent as text: an exception of the user's own need not survive pickling.
    expected = isinstance(error, Error)
    text = str(error)
    if not expected:
        text = f"{type(error).__name__}: {error}"
    return ("failed", text, traceback.format_exc(), expected)


def _leave_with(parent: int) -> None:
    """A worker whose parent was killed stops at once, in the middle of whatever it does."""
    multiprocessing.connection.wait([parent])
    os._exit(1)
