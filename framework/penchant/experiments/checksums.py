"""Checksums of data files, computed once: a small cache by path, size and time.

A dataset of gigabytes enters the key of every job by its content. A file whose size, time and inode
have not changed is not read again. A file that was changed a moment ago is not cached: it could
change again within the same tick.
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
LARGEST_CACHE = 4096  # files in the cache; the oldest are removed
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
    # A cache that was edited may hold anything.
    entry = _read_cache().get(path)
    if isinstance(entry, dict) and entry.get("facts") == facts:
        return str(entry["hash"])
    digest = checksum(Path(path))[:32]
    if time.time() - changed / 1e9 > SECONDS_TO_SETTLE:
        _write_cache(path, {"facts": facts, "hash": digest})
    return digest


def cache_file() -> Path:
    """The file of checksums in the user's folder for caches."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return caches / "penchant" / "checksums.json"


def _read_cache() -> dict[str, Any]:
    try:
        files = read_json(cache_file())["files"]
    except (Error, KeyError, OSError):
        return {}
    return files if isinstance(files, dict) else {}


def _write_cache(path: str, entry: dict[str, Any]) -> None:
    files = _read_cache()
    files.pop(path, None)
    files[path] = entry
    # In the order of insertion: the first are the oldest.
    newest = dict(list(files.items())[-LARGEST_CACHE:])
    target = cache_file()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_json(target, {"schema": SCHEMA, "files": newest})
    except (Error, OSError):
        return  # without a cache the file is read again, and nothing else changes
