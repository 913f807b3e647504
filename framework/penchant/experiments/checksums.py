"""Checksums of data files, computed once: a small cache by path, size and time.

A dataset of gigabytes enters the key of every job by its content. A file that still has the size,
the time and the number it had is not read again, neither in this session nor in the next one. One
that was changed a moment ago is not remembered: it could be changed again within the same tick.
"""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path
from typing import Any

from penchant.errors import Error
from penchant.results.files import SCHEMA, checksum, read_json, write_json

SECONDS_TO_SETTLE = 5.0  # a file younger than this may change without its time changing
LARGEST_CACHE = 4096  # files remembered; the oldest are forgotten
SMALLEST_FILE = 1_000_000  # bytes: smaller ones are read as fast as the cache


def file_hash(path: Path) -> str:
    """A hash of a file's content, or "none" where there is no such file."""
    if not path.is_file():
        return "none"
    facts = path.stat()
    return _known(str(path.resolve()), facts.st_size, facts.st_mtime_ns, facts.st_ino)


@functools.lru_cache(maxsize=LARGEST_CACHE)
def _known(path: str, size: int, changed: int, number: int) -> str:
    facts = [size, changed, number]
    if size < SMALLEST_FILE:
        return checksum(Path(path))[:32]
    # A cache that was edited holds anything.
    found = _remembered().get(path)
    if isinstance(found, dict) and found.get("facts") == facts:
        return str(found["hash"])
    digest = checksum(Path(path))[:32]
    if time.time() - changed / 1e9 > SECONDS_TO_SETTLE:
        _remember(path, {"facts": facts, "hash": digest})
    return digest


def cache_file() -> Path:
    """Where checksums are kept between sessions: the user's folder for caches."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return caches / "penchant" / "checksums.json"


def _remembered() -> dict[str, Any]:
    try:
        files = read_json(cache_file())["files"]
    except (Error, KeyError, OSError):
        return {}
    return files if isinstance(files, dict) else {}


def _remember(path: str, entry: dict[str, Any]) -> None:
    files = _remembered()
    files.pop(path, None)
    files[path] = entry
    # In the order in which they were met: the first are the oldest.
    kept = dict(list(files.items())[-LARGEST_CACHE:])
    target = cache_file()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_json(target, {"schema": SCHEMA, "files": kept})
    except (Error, OSError):
        return  # without a cache the file is read again, and nothing else changes
