"""A pool for rehearsals: some shards of a map are done, and stand for those that are like them.

The probe goes on with these answers, so that what it does after its maps is timed as well. Its
numbers mean nothing and are thrown away.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from penchant.execution.mapping import Function
from penchant_numerics.rehearsal import Clock

ENOUGH = 1.0  # seconds after which no further shard of a map is done
WARM = 1.0  # seconds beyond which what the first shard made once does not matter


@attrs.frozen
class _Done:
    """A shard that was done: its answer, and what it cost."""

    answer: Any
    seconds: float
    loops: int
    turns: int


class RehearsingPool:
    """Does some items in this process, and lets their answers stand for the others.

    Attributes:
        items: How many items there were in all maps.
        seconds: How long all of them would take, one after another.
        stood_in: For how many another one's answer stands.
    """

    workers = 1
    listener = None

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.items = 0
        self.seconds = 0.0
        self.stood_in = 0

    def map(
        self,
        function: Function,
        setup: Any,
        items: Sequence[Any],
    ) -> Iterator[Any]:
        """Yield an answer for every item, in order.

        Args:
            function: Called as `function(setup, item, worker)`.
            setup: What all items share.
            items: What is mapped.

        Yields:
            What the function returned for the item, or for one that is like it.
        """
        self.items += len(items)
        done = self._some(function, setup, items)
        for position, item in enumerate(items):
            if position in done:
                yield done[position].answer
                continue
            nearest = min(done, key=lambda other: _distance(items, other, position, item))
            self._stand_in(done[nearest])
            # A copy each: the probe holds as much memory as it would.
            yield copy.deepcopy(done[nearest].answer)

    def _some(
        self,
        function: Function,
        setup: Any,
        items: Sequence[Any],
    ) -> dict[int, _Done]:
        """The first item, the last, and others between them while there is time."""
        done: dict[int, _Done] = {}
        began = self._clock.passed()
        for position in spread(len(items)):
            if done and self._clock.passed() - began > ENOUGH:
                break
            done[position] = self._do(function, setup, items[position])
            seconds = done[position].seconds
            self.seconds += seconds
            # The first paid for what is made once; done again, it can stand for others.
            cold = position == 0 and len(items) > 1
            if cold and seconds < WARM:
                done[0] = self._again(function, setup, items[0])
        return done

    def _do(self, function: Function, setup: Any, item: Any) -> _Done:
        clock = self._clock
        began = clock.now()
        loops, turns = clock.loops, clock.turns
        answer = function(setup, item, 0)
        return _Done(
            answer,
            seconds=clock.now() - began,
            loops=clock.loops - loops,
            turns=clock.turns - turns,
        )

    def _again(
        self,
        function: Function,
        setup: Any,
        item: Any,
    ) -> _Done:
        """An item once more, now that everything is there; the clock does not count it."""
        clock = self._clock
        done = self._do(function, setup, item)
        clock.left_out -= done.seconds
        clock.loops -= done.loops
        clock.turns -= done.turns
        return done

    def _stand_in(self, done: _Done) -> None:
        self.stood_in += 1
        self.seconds += done.seconds
        self._clock.left_out += done.seconds
        self._clock.loops += done.loops
        self._clock.turns += done.turns

    def close(self) -> None:
        """Nothing to leave."""


def spread(count: int) -> Iterator[int]:
    """All positions, those far apart first.

    >>> list(spread(5))
    [0, 4, 2, 1, 3]
    """
    seen: set[int] = set()
    parts = 1
    while len(seen) < count:
        for part in range(parts + 1):
            position = part * (count - 1) // parts
            if position not in seen:
                seen.add(position)
                yield position
        parts *= 2


def _distance(
    items: Sequence[Any],
    other: int,
    position: int,
    item: Any,
) -> tuple[int, int]:
    """How unlike two shards are: entries that differ, then how far apart they stand."""
    unlike = _unlike(items[other].item, item.item)
    apart = abs(other - position)
    return unlike, apart


def _unlike(one: Any, other: Any) -> int:
    # Ranges of networks cost what their length says.
    if isinstance(one, range) and isinstance(other, range):
        return abs(len(one) - len(other))

    if isinstance(one, dict) and isinstance(other, dict):
        one = list(one.items())
        other = list(other.items())

    # Entry by entry; those that only one of them has differ as well.
    if isinstance(one, list) and isinstance(other, list):
        pairs = zip(one, other)
        differing = [bool(left != right) for left, right in pairs]
        lone = abs(len(one) - len(other))
        return sum(differing) + lone

    differ = bool(one != other)
    return int(differ)
