"""Checksums of data files, computed once: a small cache by path, size and time.

A dataset of gigabytes enters the key of every job by its content. A file whose size, time and inode
have not changed is not read again. A file that was changed a moment ago is not cached: it could
change again within the same tick.
"""

import contextlib
import os
import time
from pathlib import Path

from penchant.errors import Error
from penchant.experiments.identity import long_hash
from penchant.results.files import atomic, checksum

SECONDS_TO_SETTLE = 5.0  # a file younger than this may change without its time changing
SMALLEST_FILE = 1_000_000  # bytes: smaller ones are read as fast as the cache
LENGTH = 32  # characters of a hash


def file_hash(path: Path) -> str:
    """A hash of a file's content, or "none" where there is no such file."""
    if not path.is_file():
        return "none"
    facts = path.stat()
    if facts.st_size < SMALLEST_FILE:
        return checksum(path)[:LENGTH]
    name = long_hash([str(path.resolve()), facts.st_size, facts.st_mtime_ns, facts.st_ino])
    entry = cache_folder() / name
    # A cache that was edited may hold anything.
    if entry.is_file() and len(known := entry.read_text(errors="replace")) == LENGTH:
        return known
    digest = checksum(path)[:LENGTH]
    if time.time() - facts.st_mtime > SECONDS_TO_SETTLE:
        # Without a cache the file is read again, and nothing else changes.
        with contextlib.suppress(Error, OSError):
            entry.parent.mkdir(parents=True, exist_ok=True)
            with atomic(entry) as file:
                file.write(digest.encode())
    return digest


def cache_folder() -> Path:
    """The folder of checksums among the user's caches."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return caches / "penchant" / "checksums"
