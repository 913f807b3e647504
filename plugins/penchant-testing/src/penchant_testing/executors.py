"""What every executor must do, whatever starts its workers."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from penchant.errors import Error
from penchant.execution import scheduling
from penchant.execution.pools import RemoteError, WorkersDiedError
from penchant.execution.scheduling import start_pool
from penchant.execution.serving import pool_here, report
from penchant.plugins import discovery

SECONDS_TO_START = 120.0  # that a busy machine may take to start a worker


@contextlib.contextmanager
def started(name: str, workers: int = 2, **options: Any) -> Iterator[Any]:
    """The pool of an executor with these options, closed afterwards.

    Args:
        name: The executor's name.
        workers: How many workers.
        **options: Options of the executor.

    Yields:
        The pool.
    """
    offer = discovery.load().find("executor", name, "test")
    bound = offer.component.bind(options)
    pool = start_pool(bound, workers, 1)
    with contextlib.closing(pool):
        yield pool


def check_executor(name: str, folder: Path, **options: Any) -> None:
    """Run an executor through the interface of pools: order, errors, reports, deaths, lending.

    Args:
        name: The executor's name.
        folder: An empty folder, for what its workers leave.
        **options: Options of the executor.
    """
    with started(name, **options) as pool:
        check_answers(pool)
        check_errors(pool)
        check_reports(pool)
        if pool.workers > 1:
            check_lending(pool)
            check_a_death(pool, folder)


def check_answers(pool: Any) -> None:
    """Answers come in order, or as they end; two maps at a time do not disturb each other."""
    items = [1, 2, 3, 4]
    expected = [10, 20, 30, 40]
    assert list(pool.map(_times, 10, items)) == expected
    # As they end, each with its place.
    answers = dict(pool.unordered(_times, 10, items))
    assert answers == dict(enumerate(expected))
    assert list(pool.map(_times, 1, [])) == []
    # Two maps at a time, in turns.
    twice = pool.map(_times, 2, [1, 2, 3])
    thrice = pool.map(_times, 3, [1, 2, 3])
    both = list(zip(twice, thrice))
    assert both == [(2, 3), (4, 6), (6, 9)]


def check_errors(pool: Any) -> None:
    """What an item raises reaches who asked, and the pool goes on."""
    try:
        list(pool.map(_raises, None, ["a word", "another"]))
    except (RemoteError, ValueError) as error:
        assert "has no luck" in str(error)
    else:
        raise AssertionError("nothing was raised")
    try:
        list(pool.map(_refuses, None, [1, 2]))
    except Error as error:
        assert str(error) == "expected better"
    else:
        raise AssertionError("nothing was raised")
    # A map that is left in the middle leaves no answer behind for the next one.
    abandoned = pool.map(_times, 5, [1, 2, 3])
    assert next(abandoned) == 5
    abandoned.close()
    assert list(pool.map(_times, 7, [1, 2])) == [7, 14]


def check_reports(pool: Any) -> None:
    """What workers report on the way is heard."""
    heard: list[Any] = []
    pool.listener = heard.append
    words = ["one", "two"]
    told = list(pool.map(_tells, None, words))
    # In this process there is nobody to report to.
    expected = [item for item, was_told in told if was_told]
    assert heard == expected or sorted(heard) == words
    pool.listener = None


def check_lending(pool: Any) -> None:
    """A single long job is not left to one worker while another has nothing to do."""
    (workers,) = pool.map(_maps, None, [8])
    different = set(workers)
    assert len(different) > 1, "no shard was lent"
    # What goes wrong elsewhere is told to whoever lent it.
    (told,) = pool.map(_maps_and_fails, None, [6])
    assert "has no luck" in told
    # A time limit stops a job in the middle of a map, and nothing of it is left.
    (told,) = pool.map(_maps_and_is_stopped, None, [40])
    assert told == "stopped"
    assert list(pool.map(_times, 3, [1, 2])) == [3, 6]


def check_a_death(pool: Any, folder: Path) -> None:
    """A worker that dies is replaced, and its item done again; one that always kills fails."""
    # Once: the item is done again by another.
    once = folder / "died"
    items = [1, 2, 3]
    assert list(pool.map(_dies_once, str(once), items)) == items
    assert once.exists()
    # Always: the item is given up, and the pool goes on. How many workers it may kill is counted by
    # the kernel, for every executor: one is enough here.
    with mock.patch.object(scheduling, "STRIKES", 1):
        try:
            list(pool.map(_dies, None, [0]))
        except WorkersDiedError as error:
            assert error.item == 0
            assert "killed 1 workers in a row" in str(error)
        else:
            raise AssertionError("nothing was raised")
    assert list(pool.map(_times, 2, [4])) == [8]


def _times(setup: int, item: int, worker: int) -> int:
    return setup * item


def _raises(setup: None, item: str, worker: int) -> None:
    raise ValueError(f"{item} has no luck")


def _refuses(setup: None, item: int, worker: int) -> None:
    raise Error("expected better")


def _tells(setup: None, item: str, worker: int) -> tuple[str, bool]:
    was_told = report(item)
    return item, was_told


def _maps(setup: None, item: int, worker: int) -> list[int]:
    """A job of so many shards a map: who did each of them."""
    shards = list(range(item))
    workers: list[int] = []
    # Other workers may still be starting.
    deadline = time.monotonic() + SECONDS_TO_START
    while len(set(workers)) < 2 and time.monotonic() < deadline:
        pool = pool_here()
        workers = list(pool.map(_slowly, None, shards))
    return workers


def _slowly(setup: None, item: int, worker: int) -> int:
    time.sleep(0.1)
    return worker


def _maps_and_fails(setup: None, item: int, worker: int) -> str:
    items = [f"shard {number}" for number in range(item)]
    pool = pool_here()
    try:
        list(pool.map(_raises, None, items))
    except (RemoteError, ValueError) as error:
        return str(error)
    return "nothing was raised"


def _maps_and_is_stopped(setup: None, item: int, worker: int) -> str:
    """A job that an alarm stops, as a time limit does."""

    def over(signum: int, frame: Any) -> None:
        raise TimeoutError

    shards = list(range(item))
    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        list(pool_here().map(_slowly, None, shards))
    except TimeoutError:
        return "stopped"
    finally:
        signal.signal(signal.SIGALRM, before)
    return "nothing was stopped"


def _dies_once(setup: str, item: int, worker: int) -> int:
    died = Path(setup)
    if item == 2 and not died.exists():
        died.touch()
        os._exit(9)
    return item


def _dies(setup: None, item: int, worker: int) -> None:
    os._exit(9)
