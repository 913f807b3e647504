"""The worker's side: it takes an item, answers, reports on the way, and lends what it maps.

A job that runs in a worker maps its shards through a `LendingPool`: it does them itself, one after
another, and whoever has nothing to do in the meantime is given some of them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing.connection import wait
from typing import Any

from penchant.errors import Error
from penchant.execution.pools import Function, RemoteError, SerialPool, in_order

_bench: Bench | None = None  # of this process, where it is a worker


def is_worker() -> bool:
    """Is this process one that an executor started, and can start again?"""
    return _bench is not None


def report(message: Any) -> bool:
    """Tell the parent's listener something; False where this is not a worker process."""
    if _bench is None:
        return False
    _bench.send(("told", message))
    return True


def pool_here() -> Any:
    """The pool for a job that runs in this process: in a worker, one that lends to others."""
    if _bench is None:
        return SerialPool()
    return LendingPool(_bench)


class Bench:
    """Where a worker process works: a connection to its parent, and threads as the run wants.

    An executor makes one in every process that it starts, says `do` for every item, and need not
    know what goes through the connection.
    """

    def __init__(self, connection: Any, index: int, threads: int) -> None:
        global _bench
        from penchant.execution.environment import limited

        self.connection = connection
        self.index = index
        self._setup: Any = None
        self._limits = contextlib.ExitStack()
        # For as long as the process lives.
        self._limits.enter_context(limited(threads))
        _bench = self
        self.send(("ready",))

    def do(self, setup: bytes | None, task: bytes) -> None:
        """Do one item and send its answer.

        Args:
            setup: What the items of its map share; None where it is that of the item before.
            task: The function and the item.
        """
        try:
            if setup is not None:
                self._setup = pickle.loads(setup)
            function, item = pickle.loads(task)
            found = function(self._setup, item, self.index)
            # Pickled here, so that what cannot be sent is a failure of the item alone.
            answer: tuple[Any, ...] = ("done", pickle.dumps(found))
        except BaseException as error:  # not even sys.exit in a probe ends a worker
            answer = failure(error)
        self.send(answer)

    def close(self) -> None:
        """Leave the process as it was."""
        self._limits.close()

    def send(self, message: tuple[Any, ...]) -> None:
        """Tell the parent; without one there is nothing left to do."""
        with _undisturbed():
            try:
                self.connection.send(message)
            except OSError:
                os._exit(1)

    def receive(self) -> tuple[Any, ...]:
        """What the parent says; without a parent there is nothing left to do."""
        # Waiting may be disturbed by a time limit; reading half a message must not be.
        wait([self.connection])
        with _undisturbed():
            try:
                message: tuple[Any, ...] = self.connection.recv()
            except (EOFError, OSError):
                os._exit(1)
        return message


def failure(error: BaseException) -> tuple[Any, ...]:
    """An error as it is sent: as text, because one of the user's own need not survive pickling."""
    expected = isinstance(error, Error)
    text = str(error)
    if not expected:
        kind = type(error).__name__
        text = f"{kind}: {error}"
    lines = traceback.format_exception(error)
    details = "".join(lines)
    return ("failed", text, details, expected)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """The alarm of a time limit waits until a message is whole."""
    able = threading.current_thread() is threading.main_thread()
    if not able or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class LendingPool:
    """Does items in this process, and lends them to workers that have nothing to do."""

    workers = 1
    _numbers = itertools.count()  # of offers, so that an answer to an old one is known as such

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def map(
        self,
        function: Function,
        setup: Any,
        items: Sequence[Any],
    ) -> Iterator[Any]:
        """Yield the answers in order.

        Args:
            function: Called as `function(setup, item, worker)`.
            setup: What all items share.
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
        """Yield (position, answer) as each item ends, here or elsewhere.

        Args:
            function: Called as `function(setup, item, worker)`.
            setup: What all items share.
            items: What is mapped.

        Yields:
            The position of an item, and what the function returned.
        """
        bench = self._bench
        number = next(self._numbers)
        bench.send(("offer", number, len(items)))
        left = len(items)
        try:
            while left:
                kind, *rest = self._ask(number)
                if kind == "lend":
                    # Sent only now: mostly everybody is busy, and nobody needs it.
                    tasks = [pickle.dumps((function, item)) for item in items]
                    bench.send(("lent", number, pickle.dumps(setup), tasks))
                elif kind == "do":
                    (position,) = rest
                    left -= 1
                    yield position, function(setup, items[position], bench.index)
                elif kind == "answers":
                    for position, blob in rest[0]:
                        left -= 1
                        yield position, pickle.loads(blob)
                else:
                    raise as_error(*rest)
        finally:
            bench.send(("withdrawn", number))

    def _ask(self, number: int) -> tuple[Any, ...]:
        """What to do next with an offer."""
        self._bench.send(("next", number))
        while True:
            kind, about, *rest = self._bench.receive()
            # A map that was left in the middle may have a reply on the way.
            if kind == "reply" and about == number:
                return tuple(rest)

    def close(self) -> None:
        """Nothing to leave."""


def as_error(text: str, details: str, expected: bool) -> Exception:
    """The error that a failure was.

    Args:
        text: Its text.
        details: Its traceback.
        expected: Is it one that a user can mend?

    Returns:
        An exception to raise.
    """
    if expected:
        return Error(text)
    return RemoteError(text, details)
