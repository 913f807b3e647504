"""An actor beside the command: tasks call it, and the command answers through it.

The command cannot be called itself, and it alone sees the run folder.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

MOST_CALLS = 200  # that the command is given at once


class Endpoint:
    """Calls of tasks that wait for the command, and its answers on their way back."""

    def __init__(self) -> None:
        self._calls: asyncio.Queue[tuple[bytes, Any]] = asyncio.Queue()
        self._waiting: dict[bytes, asyncio.Future[Any]] = {}

    async def call(self, what: Any) -> Any:
        """The command's answer to a call."""
        # Random: where this actor is started again, old answers fit no new call.
        name = os.urandom(8)
        self._waiting[name] = asyncio.get_running_loop().create_future()
        self._calls.put_nowait((name, what))
        return await self._waiting[name]

    async def tell(self, what: Any) -> None:
        """Take a call that needs no answer."""
        self._calls.put_nowait((b"", what))

    async def exchange(self, answers: list[tuple[bytes, Any]]) -> list[tuple[bytes, Any]]:
        """Give tasks the command's answers, and the command their next calls."""
        for name, answer in answers:
            waiting = self._waiting.pop(name, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)
        calls = [await self._calls.get()]
        while not self._calls.empty() and len(calls) < MOST_CALLS:
            calls.append(self._calls.get_nowait())
        return calls
