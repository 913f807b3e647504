"""The run folder while commands work in it: who they are, what it holds, what is to be done."""

import contextlib
import datetime
import os
import re
import secrets
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict, cast

from penchant.errors import Error
from penchant.execution.queue.limits import forget
from penchant.execution.queue.locks import Holder, locked
from penchant.execution.queue.tasks import Claim, Queue
from penchant.experiments.experiment import Experiment
from penchant.experiments.identity import long_hash, plain
from penchant.experiments.jobs import Job
from penchant.results.files import SCHEMA, atomic, read_json, sweep, write_json
from penchant.results.job_folder import CHANGED, JobFolder
from penchant.results.runs import run_record

SECONDS_TO_JOIN = 60.0  # a command that comes or goes holds the lock of the folder for a moment
_OURS = set("jobs queue networks experiment.toml run.json report.html quantities.csv".split())


class CommandRecord(TypedDict):
    """A command in `queue/commands`."""

    schema: int
    process: int
    host: str
    engine: str  # the executor, where that works alone in a folder
    jobs: str  # hashes of ids and keys
    keys: str


@contextlib.contextmanager
def joined(folder: Path, jobs: list[Job], engine: str = "") -> Iterator[tuple[str, list[str]]]:
    """Work in a folder, alone or with other commands that run the same jobs with the same code.

    An engine works alone.
    Yields a name for this command, and descriptions of those that were at work when it came.
    """
    _check_folder(folder, jobs)
    (folder / "jobs").mkdir(parents=True, exist_ok=True)
    queue = Queue(folder)
    command = secrets.token_hex(4)
    record = _record(jobs, engine)
    path = queue.path / "commands" / f"{command}.json"
    with _locked(folder):
        others = _at_work(queue)
        _check_same(folder, others, record)
        if not others:
            # What stopped commands left: their attempts do not count any more.
            queue.remove()
            sweep(folder)
            _remove_failures(folder, jobs)
        queue.make()
        write_json(path, record)
        claim = Claim.take(path)
        assert claim is not None
    try:
        yield command, [_named(other) for other in others]
    finally:
        # Do not mask the error of a disk that refuses everything.
        with contextlib.suppress(OSError, Error), _locked(folder):
            claim.release()
            if not _at_work(queue):
                queue.remove()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let no other command come or go."""
    path = folder / ".lock"

    def waits(seconds: float, holder: Holder | None) -> None:
        if seconds > SECONDS_TO_JOIN:
            who = f" by {holder}" if holder else ""
            raise Error(f"{path} is locked for more than {SECONDS_TO_JOIN:g} seconds{who}")

    with locked(path, waits):
        yield


def _at_work(queue: Queue) -> list[CommandRecord]:
    """The commands that hold their locks; records of others are removed."""
    commands = []
    for path in (queue.path / "commands").glob("*"):
        claim = Claim.take(path)
        if claim is None:
            commands.append(cast("CommandRecord", read_json(path)))
        else:
            with claim:
                path.unlink()
    return commands


def _named(command: CommandRecord) -> str:
    return f"process {command['process']} on {command['host']}"


def _record(jobs: list[Job], engine: str) -> CommandRecord:
    """This command, and what commands on one folder must have in common."""
    return {
        "schema": SCHEMA,
        "process": os.getpid(),
        "host": socket.gethostname(),
        "engine": engine,
        "jobs": long_hash(sorted(job.id for job in jobs)),
        "keys": long_hash(sorted(job.key for job in jobs)),
    }


def _check_same(folder: Path, others: list[CommandRecord], own: CommandRecord) -> None:
    """Refuse to work beside commands whose results would be others."""
    for other in others:
        if other["jobs"] != own["jobs"]:
            what = "another experiment"
        elif other["keys"] != own["keys"]:
            what = "other code, data or versions"
        elif engine := other.get("engine") or own["engine"]:
            what = f"the same experiment, and the executor {engine} works alone in a folder"
        else:
            continue
        hint = "wait for it or choose another folder with --out"
        raise Error(f"{_named(other)} works in {folder} with {what}; {hint}")


def move_aside(folder: Path) -> None:
    """Rename an old run, unless another command works in it."""
    # Never rename a folder that only a mistyped --out could mean.
    if not folder.is_dir() or (not _is_run(folder) and any(folder.iterdir())):
        raise Error(f"{folder} exists and is not a run folder; choose another with --out")
    with _locked(folder):
        others = _at_work(Queue(folder))
        if others:
            listed = ", ".join(map(_named, others))
            hint = "wait for them or choose another folder with --out"
            raise Error(f"{folder} cannot be moved aside: {listed} at work there; {hint}")
        stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S-%f")
        folder.rename(folder.with_name(f"{folder.name}.{stamp}"))


def _is_run(folder: Path) -> bool:
    """Is everything in a folder of the kind that runs leave? Temporary files of a kill included."""
    for path in folder.iterdir():
        temporary = path.name.startswith(".") or path.suffix == ".damaged"
        if path.name not in _OURS and not temporary:
            # A user's notes beside a run do not make it something else.
            return (folder / "run.json").is_file()
    return True


def check_local(folder: Path) -> None:
    """Refuse the address of an object store, whose slashes a path has joined."""
    scheme, slash, rest = str(folder).partition(":/")
    if slash and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]+", scheme):
        url = f"{scheme}://{rest.lstrip('/')}"
        hint = f"`penchant push RUN {url}` copies it"
        raise Error(f"a run folder is a local folder; {hint} (found out = {url!r})")


def _check_folder(folder: Path, jobs: list[Job]) -> None:
    """A folder takes an experiment whose jobs include all of its own that have found something."""
    exists = folder.is_dir()
    if folder.is_file() or (exists and not _is_run(folder)):
        raise Error(f"{folder} exists and is not a run folder; choose another with --out")
    others = _other_jobs(folder, jobs) if exists else set()
    # What is there already would otherwise stand among other jobs' results.
    if any(_has_found_something(JobFolder.of(folder, name)) for name in others):
        verb = "is" if len(others) == 1 else "are"
        differing = f"{len(others)} of its jobs {verb} not in this one, such as {min(others)}"
        hint = "choose another folder with --out, or --fresh to move the old one aside (in Python "
        hint += "out and fresh=True)"
        raise Error(f"{folder} holds another experiment: {differing}; {hint}")


def _other_jobs(folder: Path, jobs: list[Job]) -> set[str]:
    """Jobs of the folder that are not in this experiment."""
    record = run_record(folder)
    known = {job["id"] for job in record["jobs"]} if record else set()
    return known - {job.id for job in jobs}


def _has_found_something(job_folder: JobFolder) -> bool:
    """Is there a result, or a shard of one? A failure is neither."""
    return job_folder.has_good_result() or any(job_folder.shards.glob("*"))


def _remove_failures(folder: Path, jobs: list[Job]) -> None:
    """Remove the failures of an experiment that has been corrected since."""
    for name in _other_jobs(folder, jobs):
        shutil.rmtree(JobFolder.of(folder, name).path, ignore_errors=True)


def still_to_do(
    folder: Path, jobs: list[Job], *, alone: bool = True
) -> tuple[list[Job], dict[str, str]]:
    """Jobs still to be computed, and why those that had a result are computed again.

    Args:
        folder: The run folder.
        jobs: The requested jobs.
        alone: Does no other command work here? Then what was left half done is removed.

    Returns:
        The jobs, and texts by their ids.
    """
    waiting: list[Job] = []
    notes: dict[str, str] = {}
    for job in jobs:
        job_folder = JobFolder.of(folder, job.id)
        done, note = clean_state(job_folder, job) if alone else job_folder.state(job.key)
        if note:
            notes[job.id] = note
        if not done:
            waiting.append(job)
    return waiting, notes


def clean_state(job_folder: JobFolder, job: Job) -> tuple[bool, str]:
    """Is a job done, and if it was, why it is not any more; what was left half done is removed."""
    if not job_folder.path.is_dir():
        return False, ""
    sweep(job_folder.path)
    forget(job_folder.path)
    done, note = job_folder.state(job.key)
    if done:
        # A failure of other code, which has been changed back since, says nothing any more.
        job_folder.failure.unlink(missing_ok=True)
        # Its shards are still there where a kill came between the result and their end.
        if job_folder.shards.is_dir():
            shutil.rmtree(job_folder.shards, ignore_errors=True)
    elif note and note != CHANGED:
        job_folder.set_aside()
    return done, note


def write_experiment(folder: Path, experiment: Experiment) -> None:
    """Write the experiment as TOML."""
    import tomli_w

    text = tomli_w.dumps(_for_toml(experiment.raw))
    with atomic(folder / "experiment.toml") as file:
        file.write(text.encode(errors="backslashreplace"))


def _for_toml(value: Any) -> Any:
    # TOML has no null; drop None values.
    if isinstance(value, dict):
        return {key: _for_toml(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, (list, tuple)) and all(isinstance(entry, dict) for entry in value):
        return [_for_toml(entry) for entry in value]
    return plain(value)
