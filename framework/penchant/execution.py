"""Execution: map a function over items, in this process or in several.

A pool has `workers` and `map(function, setup, items)`, which yields `function(setup, item, worker)` in the order of items.
The setup is sent to a worker once; a map that is abandoned, or fails, stops the workers that are still busy with it.
"""

from __future__ import annotations

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
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penchant.errors import Error

STRIKES = 3  # a shard that kills this many workers in a row fails


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


class SerialPool:
    """Runs every item in this process, one after another."""

    workers = 1

    def map(self, function: Callable[..., Any], setup: Any, items: Sequence[Any]) -> Iterator[Any]:
        return (function(setup, item, 0) for item in items)

    def close(self) -> None:
        pass


class ProcessPool:
    """Worker processes, started when they are first needed; one that dies is replaced and its item done again."""

    def __init__(self, workers: int, threads: int) -> None:
        self.workers, self.threads = workers, threads
        self._workers: dict[int, _Worker] = {}

    def map(self, function: Callable[..., Any], setup: Any, items: Sequence[Any]) -> Iterator[Any]:
        """Yield results in the order of items, as soon as they and all before them are there."""
        job = _Map(function, pickle.dumps(setup), list(items))
        try:
            while job.next < len(job.items):
                self._dispatch(job)
                self._collect(job)
                while job.next in job.results:
                    job.next += 1
                    yield job.results.pop(job.next - 1)
        finally:
            for index, worker in list(self._workers.items()):
                if worker.item is not None:  # nobody waits for its answer any more
                    worker.stop()
                    del self._workers[index]

    def _dispatch(self, job: _Map) -> None:
        for index in range(
            min(
                self.workers,
                len(job.waiting) + sum(w.item is not None for w in self._workers.values()),
            )
        ):
            if not job.waiting:
                return
            worker = self._workers.get(index)
            if worker is None:
                worker = self._workers[index] = _Worker(index, self.threads)
            if worker.item is None:
                worker.give(job, job.waiting.popleft())

    def _collect(self, job: _Map) -> None:
        busy = {
            worker.connection: index
            for index, worker in self._workers.items()
            if worker.item is not None
        }
        for connection in multiprocessing.connection.wait(list(busy)):
            worker = self._workers[busy[connection]]  # type: ignore[index]
            item = worker.item
            assert item is not None
            try:
                outcome, *answer = worker.connection.recv()
            except (EOFError, OSError):  # the worker died
                self._replace(job, worker, item)
                continue
            worker.item = None
            if outcome == "failed":
                raise (Error(answer[0]) if answer[2] else RemoteError(answer[0], answer[1]))
            job.strikes[item] = 0
            job.results[item] = answer[0]

    def _replace(self, job: _Map, worker: _Worker, item: int) -> None:
        code = worker.stop()
        del self._workers[worker.index]
        job.strikes[item] += 1
        if job.strikes[item] >= STRIKES:
            how = (
                f"signal {signal.Signals(-code).name}"
                if code is not None and code < 0
                else f"exit code {code}"
            )
            raise WorkersDiedError(
                f"shard {item} killed {STRIKES} workers in a row (last: {how}); out of memory? try fewer workers",
                item,
            )
        job.waiting.appendleft(item)

    def close(self) -> None:
        for worker in self._workers.values():
            worker.connection.close()  # all begin to leave before one is waited for
        for worker in self._workers.values():
            worker.stop()
        self._workers.clear()


class _Map:
    """One map under way."""

    def __init__(self, function: Callable[..., Any], setup: bytes, items: list[Any]) -> None:
        self.function, self.setup, self.items = function, setup, items
        self.waiting = collections.deque(range(len(items)))
        self.results: dict[int, Any] = {}
        self.strikes: collections.Counter[int] = collections.Counter()
        self.next = 0


class _Worker:
    """One process and the pipe to it; `item` is what it is busy with."""

    def __init__(self, index: int, threads: int) -> None:
        self.index, self.item, self.setup = index, None, None  # type: int, int | None, bytes | None
        context = multiprocessing.get_context("spawn")
        self.connection, child = context.Pipe()
        self.process = context.Process(
            target=serve, args=(child, index, threads), daemon=True, name=f"penchant-{index}"
        )
        with (
            _plain_main(),
            _environment(OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads)),
        ):
            self.process.start()
        child.close()

    def give(self, job: _Map, item: int) -> None:
        setup = None if self.setup is job.setup else job.setup
        self.item, self.setup = item, job.setup
        with contextlib.suppress(
            OSError
        ):  # a worker that died in the meantime is noticed when its answer is awaited
            self.connection.send((setup, pickle.dumps((job.function, job.items[item]))))

    def stop(self) -> int | None:
        self.connection.close()
        if self.process.is_alive() and self.item is None:
            self.process.join(timeout=1)  # an idle worker leaves by itself when its pipe closes
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        return self.process.exitcode


@contextlib.contextmanager
def _plain_main() -> Iterator[None]:
    """Keep workers from running the user's script again: they import what they need by name, never `__main__`."""
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
    """The life of a worker: take an item, answer, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_leave_with, args=(parent.sentinel,), daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    setup: Any = None
    while True:
        try:
            blob, task = connection.recv()
        except (EOFError, OSError):
            return
        try:
            setup = setup if blob is None else pickle.loads(blob)
            function, item = pickle.loads(task)
            answer = ("done", function(setup, item, index))
        except Exception as error:
            text = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
            answer = ("failed", text, traceback.format_exc(), isinstance(error, Error))  # type: ignore[assignment]
        try:
            connection.send(answer)
        except OSError:
            return


def _leave_with(parent: int) -> None:
    """A worker whose parent was killed stops at once, in the middle of whatever it does."""
    multiprocessing.connection.wait([parent])
    os._exit(1)


def start_serial(options: Any, workers: int, threads: int) -> SerialPool:
    """Target of the executor `serial`."""
    return SerialPool()


def start_processes(options: Any, workers: int, threads: int) -> ProcessPool:
    """Target of the executor `processes`."""
    return ProcessPool(workers, threads)
