"""Pauses between two looks at files: short at first, longer while nothing happens."""

from __future__ import annotations

import time

SHORTEST = 0.01  # seconds
LONGEST = 0.25


class Pause:
    """Grows while nothing happens."""

    def __init__(self, longest: float = LONGEST) -> None:
        self._longest = longest
        self._seconds = SHORTEST

    def wait(self) -> None:
        """Wait a little, and longer the next time."""
        time.sleep(self._seconds)
        self._seconds = min(self._longest, self._seconds * 1.5)

    def reset(self) -> None:
        """Something happened."""
        self._seconds = SHORTEST
