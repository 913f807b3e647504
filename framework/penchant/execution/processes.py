"""Worker processes of this machine.

Where the system can, workers are forked from a server that has loaded torch and computes nothing:
the four seconds that torch takes to load are paid once, not by every worker. The process that runs
an experiment is never forked itself, because threads of torch and CUDA do not survive a fork.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

from penchant.execution.scheduling import WorkerPool


class ProcessPool(WorkerPool):
    """Spreads items over processes of this machine, started when first needed."""

    def __init__(self, options: Any, workers: int | None, threads: int) -> None:
        size = workers or os.cpu_count() or 1
        super().__init__(ProcessStaff(size, threads))


class ProcessStaff:
    """Starts worker processes; see `scheduling` for what a staff is."""

    def __init__(self, size: int, threads: int) -> None:
        self.size = size
        self.threads = threads

    def hire(self, index: int, bench: Any) -> ProcessWorker:
        """Start a worker."""
        return ProcessWorker(index, self.threads, bench)

    def share(self, data: bytes) -> bytes:
        """Bytes go through the pipe, to every worker once."""
        return data

    def ready(self, workers: list[ProcessWorker], seconds: float) -> list[ProcessWorker]:
        """Workers that have something to say, or have died."""
        found = {worker.connection: worker for worker in workers}
        connections = list(found)
        ready = multiprocessing.connection.wait(connections, seconds)
        return [found[connection] for connection in ready]  # type: ignore[index]

    def close(self) -> None:
        """Nothing besides the workers."""


# By the server, because nearly every job needs them. torch asks for its compiler by itself, as soon
# as there is an optimiser or a dispatch mode.
LOADED = (
    "scipy.linalg",
    "threadpoolctl",
    "torch",
    "torch._dynamo",
    "penchant.execution.runner",
)


def _start_context() -> Any:
    """How workers are started: forked from a server, or spawned where there is no such thing."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))
    return context


class ProcessWorker:
    """One process and the pipe to it."""

    blameless = False

    def __init__(self, index: int, threads: int, bench: Any) -> None:
        self._shared: bytes | None = None
        context = _start_context()
        self.connection, child = context.Pipe()
        # A server keeps the environment that it was started with; a worker has that of today.
        count = str(threads)
        environment = {**os.environ, "OMP_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count}
        self.process = context.Process(
            target=serve,
            args=(child, index, threads, bench, environment),
            name=f"penchant-{index}",
        )
        # Libraries read their number of threads when they are loaded. A server must have no
        # threads but its own; its workers set theirs.
        with _plain_main(), _environment(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1"):
            self.process.start()
        child.close()

    def give(self, shared: bytes, task: bytes) -> None:
        """Send an item, and the setup where the worker has another one."""
        setup = None if self._shared is shared else shared
        self._shared = shared
        self.send(("task", setup, task))

    def send(self, message: tuple[Any, ...]) -> None:
        """Tell the worker something."""
        # One that died in the meantime is noticed when its answer is awaited.
        with contextlib.suppress(OSError):
            self.connection.send(message)

    def receive(self) -> Any:
        """What the worker says."""
        return self.connection.recv()

    def ended(self) -> bool:
        """Has the process ended? A child of its own may still hold its pipe open."""
        return self.process.exitcode is not None

    def leave(self) -> None:
        """Ask it to go: a worker leaves when its pipe closes."""
        self.connection.close()

    def stop(self, patience: float = 1.0) -> str:
        """End the process, by force where it does not leave by itself; returns how it ended."""
        self.connection.close()
        self.process.join(patience)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        code = self.process.exitcode
        # A negative exit code is the number of the signal that ended the process.
        if code is not None and code < 0:
            ending = signal.Signals(-code)
            return f"signal {ending.name}"
        return f"exit code {code}"


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


def serve(
    connection: Any,
    index: int,
    threads: int,
    bench: Any,
    environment: dict[str, str],
) -> None:
    """The life of a worker: take an item, answer, until the pipe closes.

    Args:
        connection: The pipe to the parent.
        index: Number of the worker.
        threads: Threads it may use.
        bench: What does the items.
        environment: Variables of the parent's environment.
    """
    os.environ.clear()
    os.environ.update(environment)
    # Ctrl-C and the end of a cluster's job are the parent's to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    watch = threading.Thread(target=_leave_with, args=(parent.sentinel,), daemon=True)
    watch.start()
    working = bench(connection, index, threads)
    while True:
        try:
            kind, *rest = connection.recv()
        except (EOFError, OSError):
            working.close()
            return
        # What else comes is a late reply about a map that was left in the middle.
        if kind == "task":
            setup, task = rest
            working.do(setup, task)


def _leave_with(parent: int) -> None:
    """A worker whose parent was killed stops at once, in the middle of whatever it does."""
    multiprocessing.connection.wait([parent])
    os._exit(1)
