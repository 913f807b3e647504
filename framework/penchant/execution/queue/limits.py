"""What may stop a job or a run in the middle: a limit of time, a signal from outside."""

import contextlib
import faulthandler
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from penchant.execution.failures import Failure, TimeLimitError
from penchant.execution.queue.progress import is_expendable

GRACE = 5.0  # seconds that a job is given to come back to Python when its time is over
SHORTEST = 1e-3  # seconds of a timer
_OVERDUE = "overdue.txt"
_BEGUN = "begun.txt"


class TerminatedError(KeyboardInterrupt):
    """SIGTERM: the run stops as it does at Ctrl-C, and keeps what is finished."""

    exit_code = 143


@contextlib.contextmanager
def raising(number: int, error: BaseException) -> Iterator[None]:
    """Raise an error in the middle of whatever runs when a signal comes."""
    # Signals reach the main thread only.
    if not _in_main_thread():
        yield
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        raise error

    before = signal.signal(number, stop)
    try:
        yield
    finally:
        signal.signal(number, before)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def time_limit(seconds: float | None, folder: Path, began: float | None = None) -> Iterator[None]:
    """Raise in the middle of whatever runs when the time is over, since `began` or from now on.

    Code of a library that does not come back to Python cannot be interrupted. In a worker the
    process is ended then, a moment later, and leaves in the folder where it was: the next worker
    that has the job reads that with `overdue`.
    """
    if seconds is None or not _in_main_thread():
        yield
        return
    # A timer of no seconds would never come.
    left = seconds if began is None else max(began + seconds - time.perf_counter(), SHORTEST)
    watched = _watched(left, folder) if is_expendable() else contextlib.nullcontext()
    with raising(signal.SIGALRM, TimeLimitError(too_long(seconds))), watched:
        signal.setitimer(signal.ITIMER_REAL, left)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def too_long(seconds: float) -> str:
    """Why a job with this limit failed."""
    return f"the job took longer than its time_limit of {seconds:g} seconds"


@contextlib.contextmanager
def _watched(seconds: float, folder: Path) -> Iterator[None]:
    """End this process when the time is long over; the watchdog needs no Python to run."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / _OVERDUE, "wb") as file:
        faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=file)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
            forget(folder)


def overdue(seconds: float | None, folder: Path) -> Failure | None:
    """Why a job failed whose worker had to be ended, and where it was; None where none had to."""
    path = folder / _OVERDUE
    if seconds is None or not path.is_file():
        return None
    where = path.read_text(errors="replace")
    forget(folder)
    # The file is empty if a worker died by other means while it was watched.
    return Failure(f"{too_long(seconds)}, and could not be interrupted", where) if where else None


@contextlib.contextmanager
def attempt_noted(folder: Path) -> Iterator[None]:
    """Leave a note in a job's folder while a command does its only job: what kills it leaves it."""
    note = folder / _BEGUN
    folder.mkdir(parents=True, exist_ok=True)
    note.touch()
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def ended_its_command(folder: Path) -> bool:
    """Did the last command end, without a word, while it did this job?"""
    return (folder / _BEGUN).is_file()


def forget(folder: Path) -> None:
    """Give a job that was overdue in an earlier run its time again."""
    (folder / _OVERDUE).unlink(missing_ok=True)
