"""Published maps: shards of a running job that any worker may do.

A map is a folder of its own: `map.json` names the function and holds the items, `shared.npz` what
they share, and `shards` a byte for every shard, its lock and state; nothing is pickled. The folder
is removed when the job has all answers.
"""

from __future__ import annotations

import contextlib
import json
import random
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import attrs
from penchant.components.targets import resolve, sendable
from penchant.errors import Error
from penchant.execution.job.context import Context
from penchant.execution.job.mapping import Map
from penchant.execution.job.runtime import Runtime, Scope
from penchant.execution.queue.tasks import DONE, Claim, Queue
from penchant.experiments.jobs import Job
from penchant.results.files import SCHEMA, atomic, read_arrays, read_json, write_arrays

if TYPE_CHECKING:
    import torch

MOST_TRIED = 8  # locks that a worker tries before it waits
order = random.SystemRandom()  # workers are forked: with a seed they would all have one order


class MapRecord(TypedDict):
    """A map as `map.json` holds it."""

    schema: int
    job: str
    key: str
    function: str  # module:name
    scope: dict[str, Any]  # fields of `Scope`, JSON-like
    items: list[dict[str, Any]]
    first: int  # number of the first shard
    digest: str  # of what the shards share


@attrs.define(eq=False)
class PublishedMap:
    """A map whose shards several workers do, each of them taken by one at a time.

    A worker reads the states of all shards in one piece and goes on from its own position, so that
    looking for a shard costs the same however many shards and workers there are. What was read is a
    hint: what holds is the state under the lock, and the file of the answer.
    """

    path: Path
    map: Map
    position: int = 0  # where it looks for the next shard

    @property
    def job(self) -> Job:
        """The job whose shards these are."""
        return self.map.runtime.job

    def take(self, states: Sequence[int]) -> Claim | None:
        """Take a shard in one of these states, the first of them first.

        None where there is none that no other worker has, or the map has gone.
        """
        path = self.path / "shards"
        with contextlib.suppress(FileNotFoundError):
            for shard in self._candidates(path.read_bytes(), states):
                claim = Claim.take(path, shard)
                if claim is None:
                    continue
                # Its last worker may have died between the answer and the end of the shard.
                if self.map.has(shard):
                    claim.finish()
                # A network file system may show a state too late, but reads it anew for a lock.
                elif claim.state in states:
                    self.position = shard + 1
                    return claim
                claim.release()
        return None

    def _candidates(self, now: bytes, states: Sequence[int]) -> Iterator[int]:
        """Shards to try: the next one in a state, then some others in it."""
        start = self.position
        for state in states:
            for _ in range(MOST_TRIED):
                shard = now.find(state, start)
                if shard < 0:
                    shard = now.find(state)
                if shard < 0:
                    break
                yield shard
                # Another worker was faster: go on elsewhere.
                start = order.randrange(len(now))

    def open(self, device: torch.device) -> Map:
        """The map with what its shards share, for a worker that is not the job's own."""
        # A context of its own: what it loads is forgotten with it.
        before = self.map.runtime
        context = Context.of(Runtime(self.job, before.folder, device, scope=before.scope))
        shared = read_arrays(self.path / "shared.npz") if self.map.digest else {}
        return attrs.evolve(self.map, context=context, shared=shared)

    def close(self) -> None:
        """Let no worker take a shard of it any more."""
        (self.path / "map.json").unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)


class Maps:
    """The published maps of a queue, as a worker sees them that knows these jobs."""

    def __init__(self, queue: Queue, jobs: dict[str, Job]) -> None:
        self._queue = queue
        self._jobs = jobs
        self._known: dict[str, PublishedMap | None] = {}

    def publish(self, whole: Map, shards: Sequence[int]) -> PublishedMap | None:
        """Let all workers do these shards of a map.

        None where it cannot be written as JSON, for example because an object of the user's own is
        part of the scope.
        """
        record = encoded(whole)
        if record is None:
            return None
        # A name of its own: what a worker remembers of a map never holds for another one.
        path = self._queue.path / "maps" / f"{record['job']}.{secrets.token_hex(4)}"
        path.mkdir(parents=True)
        if whole.shared:
            write_arrays(path / "shared.npz", whole.shared, durable=False)
        states = bytearray([DONE]) * len(whole.items)
        for shard in shards:
            states[shard] = 0
        (path / "shards").write_bytes(states)
        # Written last: a map exists when it is whole.
        with atomic(path / "map.json", durable=False) as file:
            file.write(json.dumps(record).encode())
        return PublishedMap(path, whole)

    def published(self) -> list[PublishedMap]:
        """All maps, in a random order."""
        names = self._queue.names("maps")
        order.shuffle(names)
        # They are remembered: those of many shards take long to read.
        self._known = {name: self._known.get(name) or self._opened(name) for name in names}
        return [each for each in self._known.values() if each is not None]

    def _opened(self, name: str) -> PublishedMap | None:
        """A map; None where it has gone or is not whole, or its job is another one here."""
        path = self._queue.path / "maps" / name
        try:
            record = cast("MapRecord", read_json(path / "map.json"))
        except Error:
            return None
        job = self._jobs.get(record["job"])
        if job is None or job.key != record["key"]:
            return None
        whole = decoded(record, Context(job, self._queue.folder))
        # Elsewhere than other workers, which would all wait for the same locks.
        start = order.randrange(len(whole.items))
        return PublishedMap(path, whole, position=start)

    def forget(self, job: Job) -> None:
        """Remove maps of a worker that died with this job."""
        for path in (self._queue.path / "maps").glob(f"{job.id}.*"):
            shutil.rmtree(path, ignore_errors=True)


def encoded(whole: Map) -> MapRecord | None:
    """What other workers need to do the shards of a map; None where it is not JSON-like."""
    if not sendable(whole.function):
        return None
    job, scope = whole.runtime.job, whole.runtime.scope
    fields = attrs.asdict(scope, recurse=False)
    if scope.architecture is not None:
        cls = type(scope.architecture)
        target = f"{cls.__module__}:{cls.__qualname__}"
        fields["architecture"] = [target, scope.architecture.options()]
    record: MapRecord = {
        "schema": SCHEMA,
        "job": job.id,
        "key": job.key,
        "function": f"{whole.function.__module__}:{whole.function.__qualname__}",
        "scope": fields,
        "items": [_sent(item) for item in whole.items],
        "first": whole.first,
        "digest": whole.digest,
    }
    try:
        sample = json.dumps({**record, "items": record["items"][:1]})
        again = decoded(json.loads(sample), whole.context)
    except (TypeError, ValueError, Error):
        return None
    # A shard that comes back as something else would be another shard there.
    return record if again.path(0) == whole.path(0) else None


def decoded(record: MapRecord, context: Context) -> Map:
    """The map as its job has it, without what its shards share."""
    function = resolve(record["function"], "a map")
    fields = dict(record["scope"])
    if fields["architecture"] is not None:
        target, options = fields["architecture"]
        cls: Any = resolve(target, "a scope's architecture")
        fields["architecture"] = cls.bind(options)
    for name in ("owner", "keys", "shape"):
        if fields[name] is not None:
            fields[name] = tuple(fields[name])
    items = [_received(item) for item in record["items"]]
    narrower = context.of(attrs.evolve(context.runtime, scope=Scope(**fields)))
    return Map(narrower, function, items, record["first"], digest=record["digest"])


def _sent(item: Any) -> dict[str, Any]:
    """An item as JSON: a range of networks is not a list."""
    if isinstance(item, range):
        return {"range": [item.start, item.stop, item.step]}
    return {"item": item}


def _received(item: dict[str, Any]) -> Any:
    return range(*item["range"]) if "range" in item else item["item"]
