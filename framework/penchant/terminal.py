"""Lines on stdout and stderr, in which control characters are escaped."""

from __future__ import annotations

import contextlib
import sys
from typing import TextIO

import click
from penchant.errors import printable


def say(text: str) -> None:
    """A line on stdout, in bytes: a terminal of another encoding shows what it can."""
    click.echo(printable(text).encode(errors="backslashreplace"))


def complain(text: str) -> None:
    """A line on stderr, if there is one."""
    if sys.stderr is not None:
        click.echo(printable(text), err=True)


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
