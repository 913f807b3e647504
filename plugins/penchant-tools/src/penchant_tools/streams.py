"""A line on stdout or stderr, whatever the stream can show."""

from __future__ import annotations

import contextlib
from typing import TextIO

from penchant.terminal import printable


def write(stream: TextIO | None, text: str) -> None:
    """A line on a stream; what it cannot show is escaped, and a closed one is left alone."""
    # A program started with its stderr closed has none.
    if stream is None:
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    data = f"{printable(text)}\n".encode(encoding, "backslashreplace")
    # A closed pipe must not end a run.
    with contextlib.suppress(OSError, ValueError):
        stream.write(data.decode(encoding))
        stream.flush()
