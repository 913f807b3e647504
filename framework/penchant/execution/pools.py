"""Pools: map a function over items, in this process or in workers.

A pool has few methods, and every executor is used through them:

* `workers`, how many items are done at a time;
* `map(function, setup, items)`, which yields `function(setup, item, worker)` in the order of items;
* `unordered(function, setup, items)`, which yields (position, answer) as each ends;
* `listener`, which is given what workers report on the way;
* `close()`.

The setup is sent to a worker once. Several maps may be under way at a time; one that is abandoned,
or fails, stops the workers that are busy with it. An item that kills worker after worker fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penchant.errors import Error

Function = Callable[..., Any]
Listener = Callable[[Any], None]


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


def in_order(found: Iterator[tuple[int, Any]]) -> Iterator[Any]:
    """Answers in the order of items, each as soon as it and all before it are there."""
    # Answers that came before their turn wait here.
    waiting: dict[int, Any] = {}
    following = 0
    for position, answer in found:
        waiting[position] = answer
        while following in waiting:
            yield waiting.pop(following)
            following += 1


class SerialPool:
    """Runs every item in this process, one after another."""

    workers = 1

    def __init__(
        self,
        options: Any = None,
        workers: int | None = 1,
        threads: int = 1,
    ) -> None:
        # Called like every executor; in one process there is nothing to choose.
        self.listener: Listener | None = None

    def map(
        self,
        function: Function,
        setup: Any,
        items: Sequence[Any],
    ) -> Iterator[Any]:
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
        self,
        function: Function,
        setup: Any,
        items: Sequence[Any],
    ) -> Iterator[tuple[int, Any]]:
        """Yield (position, answer), here in order as well.

        Args:
            function: Called as `function(setup, item, worker)`.
            setup: What all items share; a worker is sent it once.
            items: What is mapped.

        Yields:
            The position of an item, and what the function returned.
        """
        answers = self.map(function, setup, items)
        return enumerate(answers)

    def close(self) -> None:
        """Nothing to leave."""
