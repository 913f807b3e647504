"""The run folder while a run uses it: its lock, what it may hold, what is still to be done."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penchant.errors import Error
from penchant.execution.limits import forget
from penchant.execution.selection import Part
from penchant.experiments.experiment import Experiment
from penchant.experiments.identity import plain
from penchant.experiments.jobs import Job
from penchant.results.files import SCHEMA, atomic, read_json, sweep, write_json
from penchant.results.result import are_whole, read_record
from penchant.results.runs import drop_damaged, run_record

SECONDS_FOR_A_LOOK = 2.0  # a part that begins holds the lock of all for a moment
_OURS = {
    ".lock",
    "jobs",
    "networks",
    "experiment.toml",
    "run.json",
    "report.html",
    "quantities.csv",
}


@contextlib.contextmanager
def locked(folder: Path, part: Part | None = None) -> Iterator[None]:
    """Hold the folder's lock, so that no second run writes to it.

    Parts of one run work side by side, each with a lock of its own; a whole run waits for none of
    them, and neither does one that cuts the jobs into another number of parts.
    """
    name = "" if part is None else f"-{part}"
    with contextlib.ExitStack() as stack:
        # Hardly waiting: whoever comes second is told at once.
        seconds = 0.0 if part is not None else SECONDS_FOR_A_LOOK
        lock = _lock(folder, name, seconds)
        stack.enter_context(lock)

        if part is not None:
            # Held for a moment only, so that parts may begin at the same time.
            with _lock(folder, "", SECONDS_FOR_A_LOOK):
                pass

        # Nobody else may be at work here, but for parts of the same cut.
        for other in folder.glob(".lock-*-of-*"):
            ending = other.name.removeprefix(".lock")
            beside = part is not None and ending.endswith(f"-of-{part.count}")
            if not beside:
                with _lock(folder, ending, 0.0):
                    pass

        stack.enter_context(_signed(folder, name))
        yield


@contextlib.contextmanager
def _lock(folder: Path, name: str, seconds: float) -> Iterator[None]:
    """One lock of a folder, or an Error that says who holds it."""
    import filelock

    lock = filelock.FileLock(folder / f".lock{name}", timeout=seconds)
    try:
        lock.acquire()
    except filelock.Timeout:
        holder = _holder(folder, name)
        cure = "wait for it or choose another folder with --out"
        raise Error(f"another run is writing to {folder}{holder}; {cure}") from None
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _signed(folder: Path, name: str) -> Iterator[None]:
    """Say who holds a lock, for whoever comes second."""
    path = folder / f".holder{name}.json"
    who = {
        "schema": SCHEMA,
        "process": os.getpid(),
        "host": socket.gethostname(),
    }
    write_json(path, who)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _holder(folder: Path, name: str) -> str:
    path = folder / f".holder{name}.json"
    try:
        who = read_json(path)
        return f": process {who['process']} on {who['host']}"
    except (Error, KeyError):
        return ""


def move_aside(folder: Path) -> None:
    """Rename an old run, unless another process is writing to it."""
    if not folder.exists():
        return

    # Never rename a folder that only a mistyped --out could mean.
    if not folder.is_dir() or (not _is_run(folder) and any(folder.iterdir())):
        raise Error(f"{folder} exists and is not a run folder; choose another with --out")

    stamp = time.strftime("%Y%m%d-%H%M%S")
    with locked(folder):
        # Two moves within a second have the same stamp.
        for number in range(1000):
            ending = f"-{number}" if number else ""
            aside = folder.with_name(f"{folder.name}.{stamp}{ending}")
            if not aside.exists():
                folder.rename(aside)
                (aside / ".holder.json").unlink(missing_ok=True)
                return


def _is_run(folder: Path) -> bool:
    """Is everything in a folder of the kind that runs leave? Temporary files of a kill included."""
    for path in folder.iterdir():
        name = path.name
        temporary = name.startswith(".") or name.endswith(".damaged")
        if name not in _OURS and not temporary:
            # Somebody's notes beside a run do not make it something else.
            return (folder / "run.json").is_file()
    return True


def check_folder(folder: Path, jobs: list[Job]) -> None:
    """A folder takes an experiment whose jobs include all of its own."""
    exists = folder.is_dir()
    if folder.is_file() or (exists and not _is_run(folder)):
        raise Error(f"{folder} exists and is not a run folder; choose another with --out")
    record = run_record(folder) if exists else None
    if record is None:
        return

    # What is there already would otherwise stand among other jobs' results.
    asked = {job.id for job in jobs}
    known = {job["id"] for job in record["jobs"]}
    others = known - asked
    if not others:
        return

    count = len(others)
    example = min(others)
    found = f"{count} of its jobs are not in this one, such as {example}"
    cure = "choose another folder with --out, or --fresh to move the old one aside (in Python "
    cure += "out and fresh=True)"
    raise Error(f"{folder} holds another experiment: {found}; {cure}")


def still_to_do(folder: Path, jobs: list[Job]) -> tuple[list[Job], dict[str, str]]:
    """Jobs still to be computed, and why those that had a result are computed again."""
    waiting: list[Job] = []
    notes: dict[str, str] = {}
    for job in jobs:
        place = folder / "jobs" / job.id
        done, note = _state(place, job)
        if note:
            notes[job.id] = note
        if not done:
            waiting.append(job)
    return waiting, notes


def _state(place: Path, job: Job) -> tuple[bool, str]:
    """Is a job done, and if it was, why it is not any more."""
    sweep(place)
    forget(place)
    path = place / "result.json"
    if not path.is_file():
        return False, ""
    try:
        record = read_record(path)
    except Error as error:
        drop_damaged(place)
        return False, f"computed again: {error}"
    # Kept for whoever distributes the jobs: this one must not run in the parent.
    if record.get("killed_workers"):
        job.record["killed_workers"] = True
    if record.get("status") != "done":
        return False, ""
    # A result of other code or data answers another question.
    if record.get("key") != job.key:
        return False, "computed again: code, data or versions changed since"
    if not are_whole(place, record):
        drop_damaged(place)
        return False, "computed again: its arrays were damaged"
    # A failure of other code, which has been changed back since, says nothing any more.
    (place / "failure.json").unlink(missing_ok=True)
    # Its shards are still there where a kill came between the result and their end.
    shutil.rmtree(place / "shards", ignore_errors=True)
    return True, ""


def write_experiment(folder: Path, experiment: Experiment) -> None:
    """Keep what was asked, as TOML."""
    import tomli_w

    tables = _for_toml(experiment.raw)
    text = tomli_w.dumps(tables)
    with atomic(folder / "experiment.toml") as file:
        file.write(text.encode(errors="backslashreplace"))


def _for_toml(value: Any) -> Any:
    # TOML has no word for nothing: what is None is left out.
    if isinstance(value, dict):
        kept = {}
        for key, part in value.items():
            if part is not None:
                kept[key] = _for_toml(part)
        return kept
    is_list = isinstance(value, (list, tuple))
    if is_list and all(isinstance(part, dict) for part in value):
        return [_for_toml(part) for part in value]
    return plain(value)
