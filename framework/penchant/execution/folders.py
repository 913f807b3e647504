"""The run folder while a run uses it: its lock, what it may hold, what is still to be done."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penchant.errors import Error
from penchant.experiments.experiment import Experiment
from penchant.experiments.identity import plain
from penchant.experiments.jobs import Job
from penchant.results.files import atomic, read_json
from penchant.results.result import are_whole
from penchant.results.runs import drop_damaged, run_record

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
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, so that no second run writes to it."""
    import filelock

    # Without waiting: whoever comes second is told at once.
    lock = filelock.FileLock(folder / ".lock", timeout=0)
    try:
        with lock:
            yield
    except filelock.Timeout:
        cure = "wait for it or choose another folder with --out"
        raise Error(f"another run is writing to {folder}; {cure}") from None


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
    if folder.is_file() or (folder.is_dir() and not _is_run(folder)):
        raise Error(f"{folder} exists and is not a run folder; choose another with --out")
    record = run_record(folder) if folder.is_dir() else None
    if record is None:
        return
    asked = {job.id for job in jobs}
    others = {job["id"] for job in record["jobs"]} - asked
    if others:
        found = f"{len(others)} of its jobs are not in this one, such as {min(others)}"
        cure = "choose another folder with --out, or --fresh to move the old one aside"
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
    path = place / "result.json"
    if not path.is_file():
        return False, ""
    try:
        record = read_json(path)
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
    return True, ""


def write_experiment(folder: Path, experiment: Experiment) -> None:
    """Keep what was asked, as TOML."""
    import tomli_w

    text = tomli_w.dumps(_for_toml(experiment.raw))
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
