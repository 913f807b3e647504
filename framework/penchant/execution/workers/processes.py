"""The executor `processes`: worker processes of this machine.

Workers are forked from a server that has loaded torch and computes nothing: the seconds that torch
takes to load are paid once, not by every worker. The process that runs an experiment is never
forked itself, because threads of torch and CUDA do not survive a fork.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import multiprocessing.forkserver
import os
import pickle
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess

from penchant.components.component import Executor
from penchant.errors import Error
from penchant.execution.queue.tasks import withdraw_all

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")  # read by libraries when they are loaded
SECONDS_TO_LEAVE = 1.0  # given to a worker to stop by itself

# Loaded by the server, because nearly every job needs them. torch loads its compiler by itself, as
# soon as there is an optimiser or a dispatch mode.
LOADED = ("scipy.linalg", "threadpoolctl", "torch", "torch._dynamo", "penchant.execution.runner")


class Processes:
    """Worker processes: `penchant.Executor` describes the methods."""

    def __init__(
        self, options: Executor, work: Callable[[int], None], workers: int | None, threads: int
    ) -> None:
        self.size = workers or os.cpu_count() or 1
        self._work = pickle.dumps(work)
        self._threads = str(threads)
        self._running: dict[int, tuple[BaseProcess, Connection]] = {}

    def start(self, number: int) -> None:
        """Start a worker."""
        context = start_server()
        receiver, sender = context.Pipe(duplex=False)
        # A server keeps the environment that it was started with; a worker has that of today.
        environment = {**os.environ, **dict.fromkeys(THREADS, self._threads)}
        process = context.Process(target=serve, args=(self._work, number, sender, environment))
        with _as_server():
            process.start()
        sender.close()
        self._running[number] = (process, receiver)

    def ended(self) -> dict[int, str | Exception]:
        """Workers that ended since the last call."""
        ended: dict[int, str | Exception] = {}
        for number, (process, receiver) in list(self._running.items()):
            if process.exitcode is None:
                continue
            del self._running[number]
            ended[number] = _ending(process, receiver)
            receiver.close()
        return ended

    def stop(self) -> None:
        """End all workers, by force where they do not leave by themselves."""
        for process, _ in self._running.values():
            process.terminate()
        for process, receiver in self._running.values():
            process.join(SECONDS_TO_LEAVE)
            if process.exitcode is None:
                process.kill()
                process.join()
            receiver.close()
        self._running.clear()


def _ending(process: BaseProcess, receiver: Connection) -> str | Exception:
    """What a worker raised, or how it died; empty if it returned."""
    with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
        if receiver.poll():
            error: Exception = receiver.recv()
            return error
    code = process.exitcode or 0
    # A negative exit code is the number of the signal that ended the process.
    if code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}" if code else ""


def start_server() -> ForkServerContext:
    """Start the server that workers are forked from; it loads torch meanwhile."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))
    with _as_server(), _deaf():
        multiprocessing.forkserver.ensure_running()
    return context


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """What is started ignores Ctrl-C, which a terminal sends to it as well, from the beginning."""
    before = signal.getsignal(signal.SIGINT)
    # Only the main thread may set it; a handler that is not of Python could not be put back.
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _as_server() -> Iterator[None]:
    """What a server finds when it starts: an empty script, and one thread.

    Workers do not import the user's script, which then needs no guard against running twice.
    Libraries read their number of threads when they are loaded; workers set theirs.
    """
    main = sys.modules["__main__"]
    before = {name: os.environ[name] for name in THREADS if name in os.environ}
    sys.modules["__main__"] = types.ModuleType("__main__")
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        for name in THREADS:
            del os.environ[name]
        os.environ.update(before)


def serve(work: bytes, number: int, sender: Connection, environment: dict[str, str]) -> None:
    """A worker process.

    Args:
        work: What it calls.
        number: Its number.
        sender: Where it says what was raised.
        environment: Variables of the parent's environment.
    """
    os.environ.clear()
    os.environ.update(environment)
    # Standard output is for results: what a probe prints goes beside them.
    sys.stdout = sys.stderr
    # Ctrl-C is the parent's to handle, and it ends its workers by SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    parent = multiprocessing.parent_process()
    assert parent is not None
    watch = threading.Thread(target=_leave_with, args=(parent.sentinel,), daemon=True)
    watch.start()
    try:
        pickle.loads(work)(number)
    except (Error, OSError) as error:
        sender.send(error)
    except Exception as error:
        # One of the user's own need not survive pickling.
        sender.send(Error(f"a worker failed: {type(error).__name__}: {error}"))


def _leave(signum: int, frame: types.FrameType | None) -> None:
    """A worker that is stopped does not count as one that crashed."""
    withdraw_all()
    os._exit(128 + signum)


def _leave_with(parent: int) -> None:
    """A worker whose parent was killed stops at once, in the middle of whatever it does."""
    multiprocessing.connection.wait([parent])
    withdraw_all()
    os._exit(1)
