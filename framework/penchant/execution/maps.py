"""Published maps: shards of a running job that any worker may do.

A map is a folder of its own: `map.json` names the function and holds the items, `shared.npz` what
they share, and `locks` the locks of its shards; nothing is pickled. `failed.json` is written when
one of them has failed. The folder is removed when the job has all answers.
"""

from __future__ import annotations

import collections
import json
import random
import shutil
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import attrs
from penchant.components.targets import resolve, sendable
from penchant.errors import Error
from penchant.execution import tasks
from penchant.execution.locations import authors_line, described
from penchant.execution.mapping import Function, MapSetup, store_of
from penchant.execution.shards import Scope, Shard
from penchant.execution.tasks import Claim, Pause, Queue, released
from penchant.experiments.jobs import Job
from penchant.results.files import SCHEMA, atomic, read_arrays, read_json, write_arrays

if TYPE_CHECKING:
    from penchant.execution.shards import Arrays
    from penchant.execution.worker import Worker

order = random.SystemRandom()  # workers are forked: with a seed they would all have one order


class MapRecord(TypedDict):
    """A map as `map.json` holds it."""

    schema: int
    job: str
    key: str
    digest: str  # of what the shards share
    function: str  # module:name
    scope: dict[str, Any]  # fields of `Scope`, JSON-like
    shards: list[tuple[int, dict[str, Any]]]  # number and item


class FailureRecord(TypedDict):
    """What a shard raised, as `failed.json` holds it."""

    schema: int
    text: str
    details: str
    expected: bool


class RemoteError(Exception):
    """What a shard raised in another worker: its text, and its traceback in `details`."""

    def __init__(self, text: str, details: str) -> None:
        super().__init__(text)
        self.details = details


class PublishedMap:
    """Shards that several workers do, each of them taken by one at a time."""

    def __init__(
        self, queue: Queue, path: Path, setup: MapSetup, shards: Iterable[Shard], attempts: int
    ) -> None:
        self.queue = queue
        self.path = path
        self.setup = setup
        self._attempts = attempts
        self._left = collections.deque(shards)
        self._taken: list[Shard] = []

    def take(self, worker: str) -> tuple[Shard, Claim] | None:
        """Take a shard that is free; None where there is none, or the map has gone."""
        # What others had may be free again: they may have died.
        self._left.extend(self._taken)
        self._taken.clear()
        while self._left:
            shard = self._left.popleft()
            if self._is_done(shard):
                continue
            try:
                claim = tasks.claim(self.path / "locks", shard.number, worker)
            except FileNotFoundError:
                self._left.clear()
                return None
            if claim is None:
                self._taken.append(shard)
            elif self._may_begin(shard, claim):
                claim.begin()
                return shard, claim
            else:
                claim.release()
        return None

    def _is_done(self, shard: Shard) -> bool:
        assert self.setup.store is not None
        return self.setup.store.has(shard)

    def _may_begin(self, shard: Shard, claim: Claim) -> bool:
        # Another worker may have done it in the meantime.
        if self._is_done(shard):
            return False
        if len(claim.attempts) >= self._attempts:
            self.fail(Error(self.queue.crash_of(f"shard {shard.number}", claim)))
            return False
        return True

    def fail(self, error: BaseException) -> None:
        """Tell the job that one of its shards has failed."""
        expected = isinstance(error, Error)
        line = authors_line(error, type(self.setup.job.probe.component))
        text = str(error) if expected else described(error, line)
        details = "".join(traceback.format_exception(error))
        record: FailureRecord = {
            "schema": SCHEMA,
            "text": text,
            "details": details,
            "expected": expected,
        }
        # The job may have ended in the meantime.
        if self.path.is_dir():
            _write(self.path / "failed.json", record)

    def check(self) -> None:
        """Raise what one of the shards has raised."""
        path = self.path / "failed.json"
        if not path.exists():
            return
        record = cast("FailureRecord", read_json(path))
        if record["expected"]:
            raise Error(record["text"])
        raise RemoteError(record["text"], record["details"])

    def close(self) -> None:
        """No worker takes a shard of it any more."""
        shutil.rmtree(self.path, ignore_errors=True)


def publish(
    queue: Queue, setup: MapSetup, shards: list[Shard], attempts: int
) -> PublishedMap | None:
    """Let all workers do the shards of a map.

    Args:
        queue: Where workers look for it.
        setup: What all shards share.
        shards: The shards that are missing.
        attempts: How often a shard may crash its worker.

    Returns:
        The map; None where it cannot be written as JSON, for example because an object of the
        user's own is part of the scope.
    """
    record = _encoded(setup, shards)
    if record is None:
        return None
    path = queue.path / "maps" / f"{setup.job.id}.{shards[0].number}"
    # Left by a worker that died with this job.
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    if setup.shared:
        write_arrays(path / "shared.npz", setup.shared, durable=False)
    (path / "locks").touch()
    # Written last: a map is there when it is whole.
    _write(path / "map.json", record)
    return PublishedMap(queue, path, setup, shards, attempts)


def opened(queue: Queue, name: str, jobs: dict[str, Job], attempts: int) -> PublishedMap | None:
    """A map that another worker has published.

    Args:
        queue: Where it is.
        name: Its name.
        jobs: All jobs that are known here.
        attempts: How often a shard may crash its worker.

    Returns:
        The map; None where it has gone or is not whole, or its job is another one here.
    """
    path = queue.path / "maps" / name
    try:
        record = cast("MapRecord", read_json(path / "map.json"))
        job = jobs.get(record["job"])
        if job is None or job.key != record["key"]:
            return None
        shared = read_arrays(path / "shared.npz") if record["digest"] else {}
    except Error:
        return None
    store = store_of(job, queue.folder)
    setup = MapSetup(job, queue.folder, shared, record["digest"], store)
    shards = _decoded(record)
    # In the same order, workers would wait for each other's locks.
    order.shuffle(shards)
    return PublishedMap(queue, path, setup, shards, attempts)


def forget(queue: Queue, job: Job) -> None:
    """Remove maps of a worker that died with this job."""
    for name in queue.maps():
        owner, _, _ = name.rpartition(".")
        if owner == job.id:
            shutil.rmtree(queue.path / "maps" / name, ignore_errors=True)


def _encoded(setup: MapSetup, shards: list[Shard]) -> MapRecord | None:
    """What other workers need to do these shards; None where it is not JSON-like."""
    first = shards[0]
    architecture = first.scope.architecture
    if not sendable(first.function):
        return None
    scope = attrs.asdict(first.scope, recurse=False)
    if architecture is not None:
        cls = type(architecture)
        scope["architecture"] = [f"{cls.__module__}:{cls.__qualname__}", architecture.options()]
    record: MapRecord = {
        "schema": SCHEMA,
        "job": setup.job.id,
        "key": setup.job.key,
        "digest": setup.digest,
        "function": f"{first.function.__module__}:{first.function.__qualname__}",
        "scope": scope,
        "shards": [(shard.number, _sent(shard.item)) for shard in shards],
    }
    try:
        again = _decoded(json.loads(json.dumps(record)))[0]
    except (TypeError, ValueError, Error):
        return None
    # What comes back as something else would be another shard there.
    return record if again.identity("", "") == first.identity("", "") else None


def _decoded(record: MapRecord) -> list[Shard]:
    """The shards as the job has them."""
    function = resolve(record["function"], "a map")
    fields = dict(record["scope"])
    if fields["architecture"] is not None:
        target, options = fields["architecture"]
        cls: Any = resolve(target, "a scope's architecture")
        fields["architecture"] = cls.bind(options)
    for name in ("owner", "keys", "shape"):
        if fields[name] is not None:
            fields[name] = tuple(fields[name])
    scope = Scope(**fields)
    shards = []
    for number, item in record["shards"]:
        received = range(*item["range"]) if "range" in item else item["item"]
        shards.append(Shard(number, function, received, scope))
    return shards


def _sent(item: Any) -> dict[str, Any]:
    """An item as JSON: a range of networks is not a list."""
    if isinstance(item, range):
        return {"range": [item.start, item.stop, item.step]}
    return {"item": item}


def _write(path: Path, record: MapRecord | FailureRecord) -> None:
    text = json.dumps(record)
    with atomic(path, durable=False) as file:
        file.write(text.encode())


class SharingPool:
    """Does the shards of a worker's job, and publishes them when other workers are idle.

    A worker with `tend` leaves all shards to others.
    """

    def __init__(self, worker: Worker, claim: Claim) -> None:
        self._worker = worker
        self._claim = claim
        self.workers = worker.workers

    def map(
        self, function: Function, setup: MapSetup, shards: Sequence[Shard], /
    ) -> Iterator[Arrays]:
        """Yield the answers in order, computed here or elsewhere.

        Args:
            function: Called as `function(setup, shard, worker)`; it stores its answer.
            setup: What all shards share.
            shards: What is mapped.

        Yields:
            What the function returned.
        """
        worker = self._worker
        left = collections.deque(shards)
        published: PublishedMap | None = None
        try:
            while left:
                if published is None and len(left) > 1 and (worker.tend or worker.queue.has_idle()):
                    published = publish(worker.queue, setup, list(left), worker.assignment.attempts)
                shard = left.popleft()
                if published is None:
                    yield function(setup, shard, worker.index)
                else:
                    yield self._answer(function, published, shard, len(shards))
                # What gets further is not what crashes.
                self._claim.forgive()
        finally:
            if published is not None:
                published.close()

    def _answer(
        self, function: Function, published: PublishedMap, first: Shard, count: int
    ) -> Arrays:
        """The answer of a shard, which is waited for; meanwhile others are done."""
        worker, setup = self._worker, published.setup
        assert setup.store is not None
        pause = Pause()
        while True:
            if setup.store.has(first):
                # One that is damaged is computed again.
                return setup.store.read(first, setup.digest) or function(setup, first, worker.index)
            published.check()
            if worker.tend is not None:
                worker.tend(count)
                pause.wait()
                continue
            taken = published.take(worker.name)
            if taken is None:
                pause.wait()
                continue
            shard, claim = taken
            with released(claim):
                arrays = function(setup, shard, worker.index)
                claim.finish()
            if shard is first:
                return arrays
            pause.reset()
