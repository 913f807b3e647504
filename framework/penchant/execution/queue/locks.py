"""Locks of the operating system on bytes of files; however a holder dies, it lets go."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
from penchant.errors import Error

PAUSE = 0.03  # seconds before files that others write are read again
# What a file system without locks says; Linux gives EINVAL where it does not know a kind of lock.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


def lock(descriptor: int, start: int = 0) -> bool:
    """Lock a byte without waiting; False where it is locked already."""
    try:
        _set(descriptor, start, fcntl.F_WRLCK)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        what = f"a run folder needs a file system with locks, this one has none ({error.strerror})"
        raise Error(f"{what}; choose a folder on a local disk with --out") from error
    return True


def _set(descriptor: int, start: int, kind: int) -> None:
    """Set or remove the lock of a byte."""
    if hasattr(fcntl, "F_OFD_SETLK"):
        # Locks of an open file hold between threads as well; `struct flock` of Linux.
        request = struct.pack("hhqqi", kind, os.SEEK_SET, start, 1, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
    else:
        how = fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
        fcntl.lockf(descriptor, how, 1, start)


@attrs.frozen
class Holder:
    """The process that holds a lock, as it wrote itself into the file."""

    process: int
    parent: int
    host: str

    @classmethod
    def own(cls) -> Holder:
        """This process."""
        return cls(os.getpid(), os.getppid(), socket.gethostname())

    @classmethod
    def read(cls, descriptor: int) -> Holder | None:
        """Who holds the lock of a file; None in the moment before it has written that."""
        words = os.pread(descriptor, 1000, 0).decode(errors="replace").split()
        with contextlib.suppress(ValueError):
            process, parent, host = words
            return cls(int(process), int(parent), host)
        return None

    def write(self, descriptor: int) -> None:
        """Write it into the file of its lock."""
        os.pwrite(descriptor, f"{self.process} {self.parent} {self.host}\n".encode(), 0)

    @property
    def is_sibling(self) -> bool:
        """Is it a worker of the same command?"""
        own = Holder.own()
        return (self.parent, self.host) == (own.parent, own.host) and not self.is_stopped

    @property
    def is_stopped(self) -> bool:
        """Is it paused, as far as this machine can see?"""
        if self.host != socket.gethostname():
            return False
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{self.process}/stat").read_text()
            # The name in brackets may hold anything.
            return stat.rpartition(")")[2].split()[0] in "Tt"
        return False

    def __str__(self) -> str:
        """Such as "process 17 on host, which is stopped: `kill -CONT 17` lets it go on"."""
        cure = f", which is stopped: `kill -CONT {self.process}` lets it go on, `kill -KILL "
        stopped = f"{cure}{self.process}` ends it" if self.is_stopped else ""
        return f"process {self.process} on {self.host}{stopped}"


@contextlib.contextmanager
def locked(path: Path, waits: Callable[[float, Holder | None], None]) -> Iterator[None]:
    """Hold the lock of a file, and wait for it.

    Args:
        path: The file.
        waits: Called while another process has it, with the seconds so far and who that is.

    Yields:
        Nothing: the lock is held inside.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        began = time.monotonic()
        while not lock(descriptor):
            waits(time.monotonic() - began, Holder.read(descriptor))
            time.sleep(PAUSE)
        # A disk that refuses it costs a name in a message only.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            Holder.own().write(descriptor)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
                # Not by closing alone: what the holder has forked may have the file open as well.
                _set(descriptor, 0, fcntl.F_UNLCK)
    finally:
        os.close(descriptor)
