"""Rehearsals: how long a computation would take, from the first turns of its long loops.

A loop that may take long has a `Pace`. In a rehearsal it is told when its turns have been timed
well enough; it then leaves out the rest, which the clock of the rehearsal adds. Outside a rehearsal
nobody is told so, and every turn is made.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

TIMED = 0.25  # seconds of turns that say how long the others take
FEWEST = 3  # turns that are timed at least


class Clock:
    """Time as a rehearsal counts it: what passed, and what the turns left out would have taken.

    Args:
        passed: Seconds since some moment, such as `time.perf_counter`. Where a computation has one
            thread, `time.process_time` does not mind what else the machine is busy with.

    Attributes:
        left_out: Seconds of turns that were left out.
        loops: Loops that were begun.
        turns: Their turns, made or left out.
    """

    def __init__(self, passed: Callable[[], float] = time.perf_counter) -> None:
        self.passed = passed
        self.left_out = 0.0
        self.loops = 0
        self.turns = 0

    def now(self) -> float:
        """Seconds since some moment."""
        return self.passed() + self.left_out


_clock: ContextVar[Clock | None] = ContextVar("clock of the rehearsal", default=None)


@contextlib.contextmanager
def rehearsed(clock: Clock) -> Iterator[None]:
    """Rehearse what is computed inside, by this clock."""
    token = _clock.set(clock)
    try:
        yield
    finally:
        _clock.reset(token)


class Pace:
    """How long the turns of one loop take, in a rehearsal; elsewhere it does nothing.

    The first turn is not timed: it pays for what is made once.

    Args:
        together: Loops of the computation that share every turn.

    >>> pace = Pace()
    >>> done = 0
    >>> while done < 5 and not pace.is_known:
    ...     done += 1
    ...     pace.turned()
    >>> done
    5
    """

    def __init__(self, together: int = 1) -> None:
        self._clock = _clock.get()
        self._together = together
        self._began = 0.0
        self._turns = 0
        self._seconds = 0.0

    @property
    def rehearses(self) -> bool:
        """Is this a rehearsal?"""
        return self._clock is not None

    @property
    def is_known(self) -> bool:
        """Can the rest be left out?"""
        enough = self._turns > FEWEST
        return enough and self._seconds >= TIMED

    def begin(self) -> None:
        """The loop begins, or goes on after something else was done."""
        if self._clock is not None:
            self._began = self._clock.passed()

    def turned(self) -> None:
        """A turn was made."""
        clock = self._clock
        if clock is None:
            return
        now = clock.passed()
        if self._turns == 0:
            clock.loops += self._together
        else:
            self._seconds += now - self._began
        self._began = now
        self._turns += 1
        clock.turns += self._together

    def leave_out(self, turns: int) -> None:
        """So many turns are not made: the clock goes on as if they were."""
        if self._clock is None:
            raise RuntimeError("shards may be skipped in a dry run only")
        each = self._seconds / (self._turns - 1)
        self._clock.left_out += turns * each
        self._clock.turns += turns * self._together
