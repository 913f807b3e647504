"""Engines: jobs that a cluster's own scheduler runs, while the run folder stays with the command.

An `Order` is a job on its way to another machine, a `Link` is how it reaches the command from
there, and the `Server` is the command's side of it, which alone sees the run folder.
`penchant.Executor` describes what an engine does with them.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import attrs
from penchant.components.component import Component, Dataset
from penchant.errors import Error
from penchant.execution.failures import Failure, crashed
from penchant.execution.job.attempts import KILLED, run_job, store_result
from penchant.execution.job.checkpoints import drop_latest
from penchant.execution.job.context import Context
from penchant.execution.job.devices import worker_device
from penchant.execution.job.loading import load_samples
from penchant.execution.job.mapping import Arrays, Map, Pool
from penchant.execution.queue.limits import GRACE, too_long
from penchant.execution.queue.progress import Message, reporting
from penchant.execution.workers.maps import MapRecord, decoded
from penchant.experiments.arrays import with_arrays
from penchant.experiments.checksums import file_hash
from penchant.experiments.jobs import BoundComponent, Job
from penchant.experiments.sources import check_versions, own_sources
from penchant.plugins.registry import OWN
from penchant.results.files import atomic, checksum, write_arrays
from penchant.results.job_folder import JobFolder
from penchant.results.result import Result

if TYPE_CHECKING:
    from penchant_numerics.data import Data

Call: TypeAlias = Callable[..., Any]  # call(name, *arguments): the answer of the `Server`
Files: TypeAlias = dict[str, bytes]  # what a folder holds, by relative path

CALLS = frozenset("begin report store read lease release save samples".split())
SECONDS_BETWEEN_WRITES = 1.0  # of shards: those of a job that ends before are never written
SECONDS_TO_SAVE = 120.0  # a training that saves nothing for so long may be done by others
SECONDS_BETWEEN_LEASES = 0.2  # a training that another job does is asked for so often


class Engine(Protocol):
    """What the target of an engine returns; `penchant.Executor` says what its methods do."""

    def run(
        self, orders: Sequence[Order], server: Server
    ) -> Iterator[tuple[str, Files | str | Exception]]:
        """Yield the id of every order as it ends, with its files or how its process died."""

    def stop(self) -> None:
        """End everything."""


@attrs.frozen(eq=False)
class Order:
    """A job that runs on a machine which need not see the run folder; it can be pickled."""

    job: Job
    note: str = ""  # a warning that its result begins with
    listeners: tuple[EntryPoint, ...] = ()  # plugins that get the result

    @classmethod
    def of(cls, job: Job, note: str, listeners: tuple[EntryPoint, ...]) -> Order:
        """The order of a job, with every array that the job names read from its file here."""
        axes = {name: _with_arrays(bound) for name, bound in job.axes.items()}
        job = attrs.evolve(job, probe=_with_arrays(job.probe), **axes)
        return cls(job, note, listeners)

    @property
    def id(self) -> str:
        """The id of its job."""
        return self.job.id

    def run(self, call: Call, pool: Pool, folder: Path) -> Files:
        """Measure the job in a private folder; returns the files of the job's folder.

        Args:
            call: Carries a call to the command's `Server`, and its answer back.
            pool: Does the shards of the job.
            folder: A folder of this process; `networks` in it may be shared by a machine.

        Returns:
            The files by name, `result.json` among them.
        """
        from penchant_numerics.device import limited_threads

        job = self.job
        check_versions(job.record["versions"], job.registrations)
        stored, refusal = call("begin", job.id)
        link = Link(call, job.id, folder, frozenset(stored))
        with limited_threads(job.settings.threads), reporting(link):
            if refusal:
                store_result(job, folder, Result(), failure=Failure(refusal), extra=KILLED)
            else:
                device = worker_device(job)
                context = Context(job, folder, device=device, pool=pool, link=link)
                run_job(context, note=self.note, listeners=self.listeners)
        root = JobFolder.of(folder, job.id).path
        names = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
        return {str(name): (root / name).read_bytes() for name in names if len(name.parts) < 3}


def _with_arrays(bound: Any) -> Any:
    return attrs.evolve(bound, component=with_arrays(bound.component))


@attrs.define(eq=False)
class Link:
    """How a job or shard reaches the command from the machine where it runs."""

    call: Call
    holder: str  # who trains: a job or a shard; a second attempt has the same name
    folder: Path  # of this process
    stored: frozenset[str] = frozenset()  # names of shards that the command has

    def report(self, message: Message) -> None:
        """Report how far the job is."""
        self.call("report", message)

    def fetch(self, path: Path) -> None:
        """Write a shard that the command has to the folder here."""
        content = self.call("read", str(path.relative_to(self.folder)), "")
        if content is not None:
            _write(path, content)

    @contextlib.contextmanager
    def training(self, folder: Path) -> Iterator[None]:
        """Let no other job train this network; what others have saved is in the folder then."""
        have = [path.name for path in folder.glob("*.pt")]
        while (states := self.call("lease", folder.name, self.holder, have)) is None:
            time.sleep(SECONDS_BETWEEN_LEASES)
        for name, content in states.items():
            _write(folder / name, content)
        try:
            yield
        finally:
            self.call("release", folder.name, self.holder)

    def saved(self, path: Path) -> None:
        """Give the command a state of a training."""
        self.call("save", path.parent.name, path.name, path.read_bytes())

    def samples(self, dataset: BoundComponent[Component], seed: int) -> Data | None:
        """The command's samples, as loaded; None where this machine can read or make the same."""
        component = dataset.component
        fields = attrs.fields(type(component))
        own = dataset.registration.distribution == OWN or any(
            field.metadata["target"] for field in fields
        )
        if not own and type(component).files is Dataset.files:
            return None
        # Her own function may read anything: only what it gives the command is known.
        files = None if own else _hashes(component)
        data: Data | None = self.call("samples", dataset, seed, files)
        return data

    def file(self, path: Path) -> Path:
        """A file of the user's with the content that it has where the command runs."""
        content = self.call("read", str(path), checksum(path) if path.is_file() else "")
        if content is None:
            return path
        here = self.folder / "files" / path.name
        _write(here, content)
        return here


def _hashes(component: Component) -> dict[str, str]:
    return {Path(path).name: file_hash(Path(path)) for path in component.files()}


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path, durable=False) as file:
        file.write(content)


@attrs.frozen(eq=False)
class SentMap:
    """A map as it is sent to other machines, without what its shards share."""

    job: Job
    record: MapRecord

    def open(self, shared: Arrays, call: Call, folder: Path) -> Map:
        """The map on this machine, in a folder of this process."""
        job = self.job
        check_versions(job.record["versions"], job.registrations)
        link = Link(call, job.id, folder)
        context = Context(job, folder, device=worker_device(job), link=link)
        return attrs.evolve(decoded(self.record, context), shared=shared)


class Server:
    """Answers jobs and shards that run elsewhere, and stores what they give.

    Its methods may be called from any thread.
    """

    def __init__(
        self, folder: Path, jobs: Sequence[Job], attempts: int, on_message: Callable[..., None]
    ) -> None:
        self._folder = folder
        self._jobs = {job.id: job for job in jobs}
        self._allowed = attempts
        self._on_message = on_message
        self._lock = threading.RLock()
        self._attempts = dict.fromkeys(self._jobs, 0)
        self._further: set[str] = set()  # jobs that got further since they were given up last
        self._began: dict[str, float] = {}
        self._answers: dict[str, dict[str, Arrays]] = {}  # shards that are not written yet
        self._written = time.monotonic()
        self._leases: dict[str, tuple[str, float]] = {}  # of trainings: who has them, since when
        self._done: set[str] = set()

    def answer(self, name: str, *arguments: Any) -> Any:
        """The answer to a call of a link."""
        if name not in CALLS:
            raise Error(f"a link calls one of {', '.join(sorted(CALLS))}, found {name!r}")
        with self._lock:
            return getattr(self, f"_{name}")(*arguments)

    def may_retry(self, job: str) -> bool:
        """Did a job that was given up get further, so that it is worth another order?"""
        further = job in self._further
        self._further.discard(job)
        return further

    def finish(self, job: str, outcome: Files | str | Exception) -> None:
        """Store what became of a job: its files, or how its process died."""
        with self._lock:
            self._free(job)
            if isinstance(outcome, Exception):
                raise outcome
            if isinstance(outcome, str):
                text = crashed("the job", max(1, self._attempts[job]), outcome)
                whole, failure = self._jobs[job], Failure(text)
                store_result(whole, self._folder, Result(), failure=failure, extra=KILLED)
            else:
                _receive(JobFolder.of(self._folder, job), outcome)
            if JobFolder.of(self._folder, job).status() == "done":
                self._answers.pop(job, None)
                self._done.add(job)
            self._on_message({"job": job, "ended": True})

    def copy_code(self, folder: Path) -> list[Path]:
        """Copy modules of the user's own that jobs name, and those beside them, to a folder.

        Returns what is imported there by name: files, and folders of packages.
        """
        folder.mkdir(exist_ok=True)
        named: set[str] = set().union(*(job.modules for job in self._jobs.values()))
        for path, name in own_sources(named).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / name)
        return sorted(folder.iterdir())

    def close(self) -> None:
        """Write all shards."""
        with self._lock:
            self._flush()

    def _begin(self, job: str) -> tuple[list[str], str]:
        """Count an attempt: names of the shards that are stored, and why it may not begin."""
        self._flush()
        self._free(job)  # an attempt before this one may have died with it
        limit = self._jobs[job].settings.time_limit
        before = self._began.get(job)
        self._began[job] = time.monotonic()
        refusal = ""
        if limit is not None and before and time.monotonic() - before > limit + GRACE:
            refusal = f"{too_long(limit)}, and could not be interrupted"
        elif self._attempts[job] >= self._allowed:
            refusal = crashed("the job", self._attempts[job], "no reason is known")
        self._attempts[job] += 1
        self._on_message({"job": job, "started": True})
        shards = JobFolder.of(self._folder, job).shards
        return [path.name for path in shards.glob("*.npz")], refusal

    def _report(self, message: Message) -> None:
        self._on_message(message)

    def _store(self, job: str, names: list[str], answers: list[Arrays | None]) -> None:
        """Take answers of shards; they are written now and then."""
        # An attempt that was given up may still have sent them.
        if job in self._done:
            return
        # A job that gets further is not one that crashes.
        self._attempts[job] = min(1, self._attempts[job])
        self._further.add(job)
        held = self._answers.setdefault(job, {})
        held.update({name: each for name, each in zip(names, answers) if each is not None})
        if time.monotonic() - self._written > SECONDS_BETWEEN_WRITES:
            self._flush()

    def _flush(self) -> None:
        for job, answers in self._answers.items():
            shards = JobFolder.of(self._folder, job).shards
            shards.mkdir(parents=True, exist_ok=True)
            for name, arrays in answers.items():
                write_arrays(shards / Path(name).name, arrays, durable=False)
        self._answers.clear()
        self._written = time.monotonic()

    def _read(self, path: str, digest: str) -> bytes | None:
        """The content of a file of the run or of the user's, unless its checksum is this one."""
        here = self._folder / path
        return here.read_bytes() if here.is_file() and checksum(here) != digest else None

    def _lease(self, name: str, holder: str, have: list[str]) -> Files | None:
        """The saved states of a training that a job may do or read now; None: another has it."""
        now = time.monotonic()
        other, since = self._leases.get(name, ("", now))
        # Where it died unseen, another goes on from its last state; who is second saves the same.
        if other not in ("", holder) and now - since < SECONDS_TO_SAVE:
            return None
        self._leases[name] = holder, now
        paths = (self._folder / "networks" / name).glob("*-*-*.pt")
        return {path.name: path.read_bytes() for path in paths if path.name not in have}

    def _release(self, name: str, holder: str) -> None:
        if self._leases.get(name, ("", 0.0))[0] == holder:
            del self._leases[name]

    def _free(self, job: str) -> None:
        """Give up the trainings of a job and of its shards."""
        for name, (holder, _) in list(self._leases.items()):
            if holder.partition(" ")[0] == job:
                del self._leases[name]

    def _save(self, name: str, file: str, content: bytes) -> None:
        path = self._folder / "networks" / Path(name).name / Path(file).name
        _write(path, content)
        drop_latest(path)
        if name in self._leases:
            self._leases[name] = self._leases[name][0], time.monotonic()

    def _samples(
        self, dataset: BoundComponent[Component], seed: int, files: dict[str, str] | None
    ) -> Data | None:
        """The samples, unless another machine has the same files, or this one has none."""
        here = _hashes(dataset.component)
        if files is not None and (files == here or not here):
            return None
        return load_samples(dataset.component, seed)


def _receive(job_folder: JobFolder, files: Files) -> None:
    """Store the files of a job as if it had been measured here: `result.json` last."""
    files = dict(files)
    result = files.pop("result.json")
    if json.loads(result)["status"] != "done":
        # An older good result stays: this failure stands beside it.
        beside = job_folder.has_good_result()
        _write(job_folder.failure if beside else job_folder.result, result)
        return
    shutil.rmtree(job_folder.path / "figures", ignore_errors=True)
    for name, content in files.items():
        _write(job_folder.path / name, content)
    _write(job_folder.result, result)
    job_folder.failure.unlink(missing_ok=True)
