"""How far a folder carries as a queue: workers that only claim shards and write them.

    python tests/benchmarks/bench_folder_scale.py [--shards 100000] [--workers 1 8 32 100 200]
        [--processes] [--delay SECONDS] [--seconds 120] [--folder FOLDER]

Nothing is computed. All workers are in one process and take turns, each with a shard in hand: their
CPU time says what the queue costs, however busy the machine is. For every number of workers: claims
per second of CPU, the CPU time of a shard, the share of it that was spent on looking for a free one,
the share that was lost to locks that another worker had, and shards that were written twice.

With `--processes` every worker is a process, and times are those of the clock. With `--delay` a
worker sees answers of others only after some seconds, as on a network file system that caches what
it has read: correct, but some shards are done twice. Give a `--folder` on the file system that is to
be measured; by default it is one in memory, because the temporary folder may be on a busy disk.
"""

import argparse
import contextlib
import copy
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import attrs
from penchant.execution.job.context import Context
from penchant.execution.job.mapping import Map
from penchant.execution.queue.tasks import Claim, Queue
from penchant.execution.workers import maps
from penchant.experiments.experiment import build
from penchant.plugins import discovery

MEMORY = "/dev/shm"
ATTEMPTS = 3


def nothing(context, item):
    """What a shard would call."""
    return {}


@contextlib.contextmanager
def published_map(shards, parent):
    """A map of a job in a folder, as a worker sees it."""
    from bench_folder_scale import nothing  # by its name: workers do not know it as __main__

    raw = {
        "architectures": [{"name": "perceptron"}],
        "datasets": [{"name": "two-blobs"}],
        "probes": [{"name": "output-spread", "networks": 4}],
        "device": "cpu",
    }
    (job,) = build(raw, discovery.load(), "bench").jobs("cpu")
    with tempfile.TemporaryDirectory(dir=parent) as text:
        queue = Queue(Path(text))
        queue.make()
        known = maps.Maps(queue, {job.id: job})
        whole = Map(Context(job, queue.folder), nothing, range(shards))
        whole.folder.mkdir(parents=True)
        known.publish(whole, range(shards))
        (published,) = known.published()
        yield published


@attrs.frozen(eq=False)
class DelayedAnswers(Map):
    """Shows answers only when they are some seconds old."""

    delay: float = 0.0

    def has(self, shard):
        """Is the answer there, and old enough to be seen?"""
        with contextlib.suppress(FileNotFoundError):
            return time.time() - self.path(shard).stat().st_mtime >= self.delay
        return False


class DelayedMap(maps.PublishedMap):
    """Shows the states of shards as they were some seconds ago."""

    delay = 0.0
    _read = float("-inf")
    _older = b""

    def _candidates(self, now, states):
        if time.monotonic() - self._read >= self.delay:
            self._read, self._older = time.monotonic(), now
        return super()._candidates(self._older, states)


class Worker:
    """Claims shards and writes them; counts what that takes."""

    def __init__(self, published, name, clock, delay=0.0):
        # As if it had opened the map itself, without memory for 200 copies of its shards.
        self.published = copy.copy(published)
        self.published.position = maps.order.randrange(len(published.map.items))
        if delay:
            whole = published.map
            answers = DelayedAnswers(whole.context, whole.function, whole.items, delay=delay)
            self.published = DelayedMap(published.path, answers)
            self.published.delay = delay
        self.queue = Queue(published.map.runtime.folder)
        self.name = name
        self.clock = clock
        self.done = self.twice = self.in_vain = 0
        self.looking = self.lost = self.writing = 0.0
        self._taken = None

    def claim(self, *arguments):
        """Take a task; None where another worker has it."""
        began = self.clock()
        claim = Claim.take(*arguments)
        if claim is None:
            self.in_vain += 1
            self.lost += self.clock() - began
        return claim

    def take(self):
        """Take a shard; False where none is free."""
        maps.Claim = CountingClaims(self.claim)
        began = self.clock()
        self._taken = self.published.take(range(ATTEMPTS))
        if self._taken is not None:
            self.queue.begin(self._taken, self.name)
        self.looking += self.clock() - began
        return self._taken is not None

    def finish(self):
        """Write the shard in hand."""
        if self._taken is None:
            return
        began = self.clock()
        claim = self._taken
        self.twice += self.published.map.path(claim.number).exists()
        self.published.map.write(claim.number, {})
        claim.finish()
        claim.release()
        self.done += 1
        self.writing += self.clock() - began

    def counts(self):
        """What is summed over workers."""
        return self.done, self.twice, self.in_vain, self.looking, self.lost, self.writing


@attrs.frozen
class CountingClaims:
    """How maps take claims, with those counted that are refused."""

    take: object


def take_turns(published, workers, delay, deadline):
    """Workers of one process that take turns; CPU times."""
    found = [Worker(published, f"w{each}", time.process_time, delay) for each in range(workers)]
    began = time.monotonic()
    left = found
    while left and time.monotonic() - began < deadline:
        for worker in found:
            worker.finish()
        left = [worker for worker in found if worker.take()]
    for worker in found:
        worker.finish()
    return [worker.counts() for worker in found]


def in_processes(published, workers, delay, deadline):
    """Every worker in a process of its own; times of the clock."""
    context = multiprocessing.get_context("fork")
    begin, counts = context.Barrier(workers), context.SimpleQueue()

    def work(name):
        worker = Worker(published, name, time.perf_counter, delay)
        begin.wait()
        end = time.monotonic() + deadline
        while time.monotonic() < end and worker.take():
            worker.finish()
        counts.put(worker.counts())

    started = [context.Process(target=work, args=(f"w{each}",)) for each in range(workers)]
    for process in started:
        process.start()
    found = [counts.get() for _ in started]
    for process in started:
        process.join()
    return found


def measure(workers, options, delay):
    """One number of workers; prints a line."""
    spread = in_processes if options.processes else take_turns
    with published_map(options.shards, options.folder) as published:
        began = time.monotonic()
        found = spread(published, workers, delay, options.seconds)
        seconds = time.monotonic() - began
        stored = len(list(published.map.folder.iterdir()))
    done, twice, in_vain, looking, lost, writing = map(sum, zip(*found))
    total = looking + writing
    print(
        f"{workers:4} workers: {done / total:6.0f} claims per second of a worker, "
        f"{total / done * 1e3:.2f} ms per shard, {looking / total:4.0%} looking, "
        f"{lost / total:.1%} lost to contention, {in_vain / done:.3f} locks in vain per shard, "
        f"{twice} written twice, {stored} of {options.shards} stored in {seconds:.0f} s",
        flush=True,
    )


def main():
    """Every delay with every number of workers."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shards", type=int, default=100_000)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 8, 32, 100, 200])
    parser.add_argument("--processes", action="store_true", help="every worker is a process")
    parser.add_argument("--delay", type=float, nargs="*", default=[0.0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--folder", default=MEMORY if Path(MEMORY).is_dir() else None)
    options = parser.parse_args()
    print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for delay in options.delay:
        print(f"answers of others are seen after {delay:g} s, in {options.folder}")
        for workers in options.workers:
            measure(workers, options, delay)


if __name__ == "__main__":
    main()
