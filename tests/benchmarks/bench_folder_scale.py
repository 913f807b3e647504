"""How far a folder carries as a queue: workers that only claim shards and write them.

    python tests/benchmarks/bench_folder_scale.py [--shards 100000] [--workers 1 2 8 32 100 200]
        [--delay 0 0.5] [--seconds 120] [--folder FOLDER]

Nothing is computed. For every number of workers: shards per second, the share of the time that a
worker spends on looking for a free shard, the locks that it tried in vain, and shards that were
written twice. With `--delay` a worker sees files of others only after so many seconds, as on a
network file system that caches what it has listed: correct, but some shards are done twice. Give a
`--folder` on the file system that is to be measured; by default it is one in memory, because the
temporary folder may be on a busy disk. With `--turns` all workers are in one process and take turns:
their CPU time says what the queue costs, however busy the machine is.
"""

import argparse
import collections
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

from penchant.execution import maps, tasks
from penchant.execution.mapping import MapSetup, store_of
from penchant.execution.shards import Scope, Shard, ShardStore
from penchant.execution.tasks import Queue
from penchant.experiments.experiment import build
from penchant.plugins import discovery

MEMORY = "/dev/shm"


def nothing(context, item):
    """What a shard would call."""
    return {}


def made_job():
    """A job whose shards these are."""
    raw = {
        "architectures": [{"name": "perceptron"}],
        "datasets": [{"name": "two-blobs"}],
        "probes": [{"name": "output-spread", "networks": 4}],
        "device": "cpu",
    }
    (job,) = build(raw, discovery.load(), "bench").jobs("cpu")
    return job


class DelayedStore(ShardStore):
    """Shows shards of others as a listing of some seconds ago had them."""

    def __init__(self, folder, key, delay):
        super().__init__(folder, key)
        self.delay = delay
        self._listed = -delay
        self._names = set()

    def has(self, shard):
        """Was the shard there when its folder was listed?"""
        now = time.monotonic()
        if now - self._listed >= self.delay:
            self._listed = now
            self._names = {path.name for path in self.folder.iterdir()}
        return f"{shard.number}.npz" in self._names


in_vain = 0  # locks that another worker had


def counted(*arguments):
    """Take a task; None where another worker has it."""
    global in_vain
    claim = tasks.claim(*arguments)
    in_vain += claim is None
    return claim


class CountingTasks:
    """What maps know of tasks, with claims that are counted."""

    claim = staticmethod(counted)


def work(opened, name, delay, deadline, begin, counts):
    """Claim shards and write them, until none is left or the time is over."""
    # As if each worker had opened the map itself, without memory for 200 copies of it.
    left = list(opened._left)
    maps.order.shuffle(left)
    opened._left = collections.deque(left)
    if delay:
        store = opened.setup.store
        opened.setup.store = DelayedStore(store.folder, store.key, delay)
    begin.wait()
    done = twice = 0
    looking = writing = 0.0
    began = time.monotonic()
    while time.monotonic() - began < deadline:
        start = time.perf_counter()
        taken = opened.take(name)
        looked = time.perf_counter()
        looking += looked - start
        if taken is None:
            break
        shard, claim = taken
        twice += opened.setup.store.path(shard).exists()
        opened.setup.store.write(shard, "", {})
        claim.finish()
        claim.release()
        writing += time.perf_counter() - looked
        done += 1
    counts.put((done, twice, in_vain, looking, writing, time.monotonic() - began))


def measure(workers, shards, delay, deadline, parent):
    """One number of workers; prints a line."""
    maps.tasks = CountingTasks
    from bench_folder_scale import nothing  # by its name: workers do not know it as __main__

    job = made_job()
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(dir=parent) as text:
        folder = Path(text)
        queue = Queue(folder)
        queue.make()
        setup = MapSetup(job, folder, {}, "", store_of(job, folder))
        setup.store.folder.mkdir(parents=True)
        all_shards = [Shard(number, nothing, number, Scope()) for number in range(shards)]
        assert maps.publish(queue, setup, all_shards, 3) is not None
        (name,) = queue.maps()
        opened = maps.opened(queue, name, {job.id: job}, 3)
        begin, counts = context.Barrier(workers), context.SimpleQueue()
        started = []
        for number in range(workers):
            call = (opened, f"w{number}", delay, deadline, begin, counts)
            started.append(context.Process(target=work, args=call))
            started[-1].start()
        found = [counts.get() for _ in started]
        for process in started:
            process.join()
        stored = len(list(setup.store.folder.iterdir()))
    done, twice, tried, looking, writing, _ = map(sum, zip(*found))
    seconds = max(each[-1] for each in found)
    print(
        f"{workers:4} workers: {done / seconds:8.0f} shards/s, {looking / (looking + writing):4.0%} "
        f"looking, {tried / max(1, done):.2f} locks in vain per shard, {twice} written twice, "
        f"{stored} of {shards} stored in {seconds:.1f} s",
        flush=True,
    )


def take_turns(workers, shards, parent):
    """Workers of one process that take turns, each with a shard in hand; prints CPU times."""
    from bench_folder_scale import nothing

    maps.tasks = CountingTasks
    job = made_job()
    with tempfile.TemporaryDirectory(dir=parent) as text:
        folder = Path(text)
        queue = Queue(folder)
        queue.make()
        setup = MapSetup(job, folder, {}, "", store_of(job, folder))
        setup.store.folder.mkdir(parents=True)
        all_shards = [Shard(number, nothing, number, Scope()) for number in range(shards)]
        maps.publish(queue, setup, all_shards, 3)
        (name,) = queue.maps()
        opened = [maps.opened(queue, name, {job.id: job}, 3) for _ in range(workers)]
        global in_vain
        in_vain = 0
        looking = writing = 0.0
        held = {}
        done = 0
        while opened:
            for number, each in list(enumerate(opened)):
                start = time.process_time()
                if number in held:
                    shard, claim = held.pop(number)
                    setup.store.write(shard, "", {})
                    claim.finish()
                    claim.release()
                    done += 1
                    middle = time.process_time()
                    writing += middle - start
                    start = middle
                taken = each.take(f"w{number}")
                looking += time.process_time() - start
                if taken is not None:
                    held[number] = taken
            if not held:
                break
    print(
        f"{workers:4} workers: {(looking + writing) / done * 1e3:.2f} ms of CPU per shard, "
        f"{looking / (looking + writing):.0%} looking, {in_vain / done:.2f} locks in vain per "
        f"shard, {done} of {shards} stored",
        flush=True,
    )


def main():
    """Every delay with every number of workers."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shards", type=int, default=100_000)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 8, 32, 100, 200])
    parser.add_argument("--delay", type=float, nargs="*", default=[0.0, 0.5])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--folder", default=MEMORY if Path(MEMORY).is_dir() else None)
    parser.add_argument("--turns", action="store_true", help="CPU time, in one process")
    options = parser.parse_args()
    print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if options.turns:
        for workers in options.workers:
            take_turns(workers, options.shards, options.folder)
        return
    for delay in options.delay:
        print(f"files of others are seen after {delay:g} s, in {options.folder}")
        for workers in options.workers:
            measure(workers, options.shards, delay, options.seconds, options.folder)


if __name__ == "__main__":
    main()
