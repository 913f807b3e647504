"""How much is read of a file that someone may have sent: each bound stands in the message.

Files that this project writes are far below them.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from penchant.errors import Error

LARGEST_JSON = 50_000_000  # bytes of run.json, result.json and so on
LARGEST_EXPERIMENT = 10_000_000  # bytes: no experiment written by hand has more
LARGEST_ARRAYS = 4_000_000_000  # bytes of all arrays of one file
LARGEST_PICTURE = 20_000_000  # bytes of one figure
DEEPEST = 50  # tables and lists inside each other
MOST_ENTRIES = 2_000_000  # jobs of a run; quantities, or coordinates of an axis, such as samples
MOST_ARRAYS = 100_000  # of one file
MOST_CLASSES = 1_000_000  # of imported labels; vocabularies have a quarter of that
LONGEST_NAME = 255  # bytes of a folder's name, as file systems have it
LARGEST_NUMBER = 1e300  # so that differences and squares of errors can be formed


@contextmanager
def opened(path: Path, largest: int) -> Iterator[BufferedReader]:
    """A file to be read; refused where it is larger, or no file (a pipe would never end)."""
    with open(path, "rb", opener=_without_waiting) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise Error(f"{path} is not a regular file")
        if facts.st_size > largest:
            raise Error(f"{path} has {facts.st_size} bytes, expected at most {largest}")
        yield file


def _without_waiting(path: str, flags: int) -> int:
    """Open also a pipe without a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def content_of(path: Path, largest: int) -> bytes:
    """The content of a file of bounded size."""
    with opened(path, largest) as file:
        return file.read()


def check_depth(value: Any, what: object) -> None:
    """Refuse tables and lists that stand too deep inside each other."""
    level = [value]
    for _ in range(DEEPEST):
        # What is inside all tables and lists of this level.
        inside = [each.values() if isinstance(each, dict) else each for each in level]
        level = [each for some in inside for each in some if isinstance(each, (dict, list))]
        if not level:
            return
    raise Error(f"{what} has tables or lists inside each other, expected at most {DEEPEST} deep")
