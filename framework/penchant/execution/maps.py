"""Published maps: shards of a running job that any worker may do.

A map is a folder of its own: `map.json` names the function and holds the items, `shared.npz` what
they share, and `locks` the locks of its shards; nothing is pickled. `failed.json` is written when
one of them has failed. The folder is removed when the job has all answers.
"""

from __future__ import annotations

import collections
import contextlib
import json
import random
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import attrs
from penchant.components.targets import resolve, sendable
from penchant.errors import Error
from penchant.execution.context import Context
from penchant.execution.devices import Device
from penchant.execution.failures import Failure, ShardError, failure_of
from penchant.execution.mapping import Map
from penchant.execution.shards import Arrays, Scope, Shard, ShardStore, check_sendable
from penchant.execution.tasks import PAUSE, Claim, Queue
from penchant.experiments.jobs import Job
from penchant.results.files import SCHEMA, atomic, read_arrays, read_json, write_arrays
from penchant.results.job_folder import JobFolder

if TYPE_CHECKING:
    from penchant.execution.worker import Worker

WAITING, BEGUN, DONE = b"\0", b"\1", b"\2"  # states of a shard
MOST_TRIED = 8  # locks that a worker tries before it waits
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
    details: str | None
    expected: bool  # was it a `penchant.Error`?


class PublishedMap:
    """Shards that several workers do, each of them taken by one at a time.

    `states` has one byte per shard, which says where to look: not begun, begun, or done. It is a
    hint: what holds is the lock of a shard and the file of its answer. A worker reads it in one
    piece and goes on from its own position, so that looking for a shard costs the same however many
    shards and workers there are.
    """

    def __init__(
        self, queue: Queue, path: Path, job: Job, store: ShardStore, shards: list[Shard]
    ) -> None:
        self.queue = queue
        self.path = path
        self.job = job
        self.store = store
        self.shards = shards
        self.position = 0  # where it looks for the next shard

    def take(self, worker: str, attempts: int) -> tuple[Shard, Claim] | None:
        """Take a shard that is free; None where there is none, or the map has gone.

        Args:
            worker: The worker that takes it.
            attempts: How often a shard may crash its worker.
        """
        with contextlib.suppress(FileNotFoundError):
            for position in self._candidates((self.path / "states").read_bytes()):
                shard = self.shards[position]
                claim = Claim.take(self.path / "locks", position, worker)
                if claim is None:
                    continue
                if self._may_begin(shard, claim, attempts):
                    claim.begin()
                    self._mark(claim, BEGUN)
                    self.position = position + 1
                    return shard, claim
                claim.release()
        return None

    def _candidates(self, states: bytes) -> Iterator[int]:
        """Positions to try: the next one that is not begun, else some that others have begun."""
        start = self.position
        for state in (WAITING, BEGUN):
            for _ in range(MOST_TRIED):
                position = states.find(state, start)
                if position < 0:
                    position = states.find(state)
                if position < 0:
                    break
                yield position
                # Another worker was faster: go on elsewhere.
                start = order.randrange(len(states))

    def _mark(self, claim: Claim, state: bytes) -> None:
        with contextlib.suppress(FileNotFoundError), open(self.path / "states", "r+b") as file:
            file.seek(claim.number)
            file.write(state)

    def finish(self, claim: Claim) -> None:
        """Note that a shard is done."""
        self._mark(claim, DONE)
        claim.finish(done=True)

    def _may_begin(self, shard: Shard, claim: Claim, attempts: int) -> bool:
        # Another worker may have done it in the meantime. A network file system may show its answer
        # too late, but reads the slot anew when it is locked.
        if claim.is_done or self.store.has(shard):
            self._mark(claim, DONE)
            return False
        if len(claim.attempts) >= attempts:
            self.fail(Error(self.queue.crash_of(f"shard {shard.number}", claim)))
            return False
        return True

    def fail(self, error: BaseException) -> None:
        """Tell the job that one of its shards has failed."""
        failure = failure_of(error, type(self.job.probe.component))
        record: FailureRecord = {
            "schema": SCHEMA,
            "text": failure.text,
            "details": failure.details,
            "expected": isinstance(error, Error),
        }
        if self.is_open():
            _write(self.path / "failed.json", record)

    def check(self) -> None:
        """Raise what one of the shards has raised."""
        path = self.path / "failed.json"
        if not path.exists():
            return
        record = cast("FailureRecord", read_json(path))
        if record["expected"]:
            raise Error(record["text"])
        raise ShardError(Failure(record["text"], record["details"]))

    def open(self, device: Device) -> Map:
        """What a worker that is not the job's own needs for its shards."""
        shared = read_arrays(self.path / "shared.npz") if self.store.shared else {}
        return Map(Context(self.job, self.queue.folder, device=device), shared, self.store)

    def is_open(self) -> bool:
        """Does its job still wait for answers?"""
        return (self.path / "map.json").exists()

    def close(self) -> None:
        """Let no worker take a shard of it any more."""
        (self.path / "map.json").unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)


def publish(queue: Queue, shared_map: Map, shards: list[Shard]) -> PublishedMap | None:
    """Let all workers do the shards of a map.

    Args:
        queue: Where workers look for it.
        shared_map: What all shards share.
        shards: The shards that are missing, by their numbers.

    Returns:
        The map; None where it cannot be written as JSON, for example because an object of the
        user's own is part of the scope.
    """
    job, store = shared_map.context._job, shared_map.store
    assert store is not None
    record = _encoded(job, store.shared, shards)
    if record is None:
        return None
    # A name of its own: what a worker remembers of a map never holds for another one.
    path = queue.path / "maps" / f"{job.id}.{secrets.token_hex(4)}"
    path.mkdir(parents=True)
    if shared_map.shared:
        write_arrays(path / "shared.npz", shared_map.shared, durable=False)
    (path / "locks").touch()
    (path / "states").write_bytes(WAITING * len(shards))
    # Written last: a map exists when it is whole.
    _write(path / "map.json", record)
    return PublishedMap(queue, path, job, store, shards)


def opened(queue: Queue, name: str, jobs: dict[str, Job]) -> PublishedMap | None:
    """A map that another worker has published.

    Args:
        queue: Where it is.
        name: Its name.
        jobs: All jobs that are known here.

    Returns:
        The map; None where it has gone or is not whole, or its job is another one here.
    """
    path = queue.path / "maps" / name
    try:
        record = cast("MapRecord", read_json(path / "map.json"))
    except Error:
        return None
    job = jobs.get(record["job"])
    if job is None or job.key != record["key"]:
        return None
    store = ShardStore(JobFolder.of(queue.folder, job.id).shards, job.key, record["digest"])
    shards = _decoded(record)
    published = PublishedMap(queue, path, job, store, shards)
    # Elsewhere than other workers, which would all wait for the same locks.
    published.position = order.randrange(len(shards))
    return published


def forget(queue: Queue, job: Job) -> None:
    """Remove maps of a worker that died with this job."""
    for name in queue.maps():
        owner, _, _ = name.rpartition(".")
        if owner == job.id:
            shutil.rmtree(queue.path / "maps" / name, ignore_errors=True)


def _encoded(job: Job, digest: str, shards: list[Shard]) -> MapRecord | None:
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
        "job": job.id,
        "key": job.key,
        "digest": digest,
        "function": f"{first.function.__module__}:{first.function.__qualname__}",
        "scope": scope,
        "shards": [(shard.number, _sent(shard.item)) for shard in shards],
    }
    try:
        sample = json.dumps({**record, "shards": record["shards"][:1]})
        again = _decoded(json.loads(sample))[0]
    except (TypeError, ValueError, Error):
        return None
    # A shard that comes back as something else would be another shard there.
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
    return [Shard(number, function, _received(item), scope) for number, item in record["shards"]]


def _sent(item: Any) -> dict[str, Any]:
    """An item as JSON: a range of networks is not a list."""
    if isinstance(item, range):
        return {"range": [item.start, item.stop, item.step]}
    return {"item": item}


def _received(item: dict[str, Any]) -> Any:
    return range(*item["range"]) if "range" in item else item["item"]


def _write(path: Path, record: MapRecord | FailureRecord) -> None:
    with atomic(path, durable=False) as file:
        file.write(json.dumps(record).encode())


class SharingPool:
    """Does the shards of a worker's job, and publishes them when other workers are idle.

    A worker with `tend` leaves all shards to others.
    """

    def __init__(self, worker: Worker, claim: Claim) -> None:
        self._worker = worker
        self._claim = claim

    def map(self, shared_map: Map, shards: Sequence[Shard], /) -> Iterator[Arrays]:
        """Yield the answers of shards in their order, computed here or elsewhere."""
        worker = self._worker
        # Refused here, before a worker fails to find it.
        if worker.tend is not None:
            check_sendable(shards[0].function)
        left = collections.deque(shards)
        published: PublishedMap | None = None
        try:
            while left:
                if published is None and len(left) > 1 and (worker.tend or worker.queue.has_idle()):
                    published = publish(worker.queue, shared_map, list(left))
                shard = left.popleft()
                if published is None:
                    yield shared_map.compute(shard)
                else:
                    yield self._answer(shared_map, published, shard, len(shards))
                # A job that gets further is not one that crashes.
                self._claim.forgive()
        finally:
            if published is not None:
                published.close()

    def _answer(self, shared_map: Map, published: PublishedMap, first: Shard, count: int) -> Arrays:
        """Wait for the answer of a shard; meanwhile do others."""
        worker = self._worker
        while not published.store.has(first):
            published.check()
            taken = None
            if worker.tend is None:
                taken = published.take(worker.name, worker.assignment.attempts)
            else:
                worker.tend(count)
            if taken is None:
                time.sleep(PAUSE)
                continue
            shard, claim = taken
            with claim:
                arrays = shared_map.compute(shard)
                published.finish(claim)
            if shard is first:
                return arrays
        return shared_map.stored(first)
