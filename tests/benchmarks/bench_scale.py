"""What spreading gains, and what a large grid costs.

    python tests/benchmarks/bench_scale.py [shards] [order] [grid]

Start-up of workers is excluded, and printed. On a machine with other work the ratios say little:
the load is printed as well.
"""

import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

import penchant
from penchant.execution.attempts import keep_result, run_job
from penchant.execution.runner import run_experiment
from penchant.execution.scheduling import start_pool
from penchant.execution.serving import pool_here
from penchant.experiments.experiment import build
from penchant.plugins import discovery
from penchant.results.result import Result
from penchant_report.report import write_report

SHARDS = 64
A_SHARD = 32  # networks
UNEQUAL = (1, 2, 3, 4, 6, 8, 12, 20)  # shards of eight jobs, the longest last
SECONDS_A_SHARD = 0.1
GRID = 10_000


@contextlib.contextmanager
def timed(found):
    """Put the seconds of what happens inside into a list."""
    started = time.perf_counter()
    yield
    found.append(time.perf_counter() - started)


def nad(networks, threads):
    """The job of a neural anisotropy measurement on LeNet."""
    raw = {
        "architectures": [{"name": "lenet"}],
        "probes": [{"name": "nad", "networks": networks}],
        "threads": threads,
        "figures": False,
        "device": "cpu",
    }
    (job,) = build(raw, discovery.load(), "bench").jobs("cpu")
    return job


def seconds_of(executor, workers, threads):
    """Seconds of all shards; what it took to start is printed."""
    component = discovery.load().find("executor", executor, "bench").component()
    seconds = []
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        with timed(seconds):
            pool = start_pool(component, workers, threads)
            # Every worker has loaded everything once when this is done.
            run_job(nad(2 * workers * A_SHARD, threads), folder / "warm", pool=pool)
        with contextlib.closing(pool), timed(seconds):
            result = run_job(nad(SHARDS * A_SHARD, threads), folder / "run", pool=pool)
        assert result.status == "done", result.error
    start, work = seconds
    print(
        f"  {executor:10} {workers} workers, {threads} threads: {work:7.1f} s   ({start:.1f} s to start)"
    )
    return work


def shards():
    """64 shards of LeNet: two workers beside one process."""
    print(f"{SHARDS} shards of nad on lenet")
    one = seconds_of("serial", 1, 1)
    two = seconds_of("serial", 1, 2)
    for executor in ("processes", "ray"):
        spread = seconds_of(executor, 2, 1)
        print(f"  {executor}: {one / spread:.2f} times one process, one thread   (target 1.8)")
        print(f"  {executor}: {two / spread:.2f} times one process, two threads  (target 1.15)")


def job_of(setup, count, worker):
    """A job of so many shards, which lends them."""
    return len(list(pool_here().map(sleep, None, list(range(count)))))


def sleep(setup, item, worker):
    """A shard that takes as long on every machine."""
    time.sleep(SECONDS_A_SHARD)
    return item


def order():
    """Eight unequal jobs on two workers, beside the best order."""
    import bench_scale  # by its name: workers do not know this script as __main__

    best = sum(UNEQUAL) * SECONDS_A_SHARD / 2
    component = discovery.load().find("executor", "processes", "bench").component()
    seconds = []
    with contextlib.closing(start_pool(component, 2, 1)) as pool:
        while len(set(pool.map(bench_scale.who, None, [0, 0, 0, 0]))) < 2:
            pass
        with timed(seconds):
            list(pool.unordered(bench_scale.job_of, None, UNEQUAL))
    (found,) = seconds
    print(f"eight unequal jobs on two workers: {found:.2f} s, best order {best:.2f} s")
    print(f"  that is {found / best:.2f} times the best   (target 1.10)")


def who(setup, item, worker):
    """Which worker does this."""
    time.sleep(0.05)
    return worker


def grid():
    """10,000 trivial jobs: planned, resumed, read and reported."""
    raw = {
        "architectures": [{"name": "perceptron"}],
        "datasets": [{"name": "two-blobs"}],
        "probes": [{"name": "output-spread", "networks": 2}],
        "seeds": list(range(GRID)),
        "executor": "serial",
        "figures": False,
    }
    plugins = discovery.load()
    seconds = []
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text) / "run"
        with timed(seconds):
            experiment = build(raw, plugins, "bench")
            jobs = experiment.jobs("cpu")
        quantity = penchant.Quantity(1.0, stderr=0.5, over="networks")
        for job in jobs:
            (folder / "jobs" / job.id).mkdir(parents=True)
            keep_result(job, folder, Result({"spread": quantity}, {"means": [1.0, 2.0]}))
        with timed(seconds):
            run = run_experiment(experiment, plugins, folder)
        assert run.done
        with timed(seconds):
            report = write_report(run)
        with timed(seconds):
            rows = penchant.read(folder).table()
        assert len(rows) == GRID
        size = report.stat().st_size / 1e6
    planned, resumed, reported, read = seconds
    print(f"{GRID} trivial jobs: planned in {planned:.1f} s   (target 10)")
    print(f"  resumed when finished in {resumed:.1f} s   (target 30)")
    print(f"  report in {reported:.1f} s, {size:.1f} MB   (target 20 MB)")
    print(f"  read as a table in {read:.1f} s")


def main():
    """All of it, or what was named."""
    parts = {"shards": shards, "order": order, "grid": grid}
    load = os.getloadavg()[0]
    print(f"load of this machine before: {load:.1f} on {os.cpu_count()} cores")
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
