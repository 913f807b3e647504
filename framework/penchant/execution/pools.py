"""Pools: do the items of a map.

A pool has `workers`, how many items are done at a time, and `map(function, setup, items)`, which
yields `function(setup, item, worker)` in the order of items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

Function = Callable[..., Any]


class SerialPool:
    """Does every item in this process, one after another."""

    workers = 1

    def map(self, function: Function, setup: Any, items: Sequence[Any]) -> Iterator[Any]:
        """Yield the answers in order.

        Args:
            function: Called as `function(setup, item, worker)`.
            setup: What all items share.
            items: What is mapped.

        Yields:
            What the function returned.
        """
        for item in items:
            yield function(setup, item, 0)
