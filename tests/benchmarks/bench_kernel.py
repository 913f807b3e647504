"""What the kernel costs: listing, a shard, recognising a finished run."""

import functools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from penchant.execution.job.attempts import run_job, store_result
from penchant.execution.job.context import Context
from penchant.execution.runner import run_experiment
from penchant.experiments.experiment import build
from penchant.plugins import discovery
from targets import at_most

RAW = {
    "architectures": [{"name": "perceptron"}],
    "datasets": [{"name": "two-blobs"}],
    "executor": "serial",
    "figures": False,
}
VALUES = np.zeros(12_000)


def best(function, repeats=5):
    """The shortest of several times, which other programs disturb least."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def started(*call):
    """Run a program as users have it: with compiled files kept."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run(call, check=True, capture_output=True, env=environment)


def commands():
    """Listing and explaining, beside the import of what they are made of."""
    penchant = str(Path(sys.executable).with_name("penchant"))
    calls = (
        (sys.executable, "-c", "import attrs, pluggy, click"),
        (penchant, "list"),
        (penchant, "explain", "output-spread"),
    )
    # In turns: a machine that is slower for a while is so for all of them.
    turns = []
    for _ in range(25):
        turns.append([best(functools.partial(started, *call), 1) for call in calls])
    libraries, listed, explained = map(min, zip(*turns))
    print(f"import attrs, pluggy, click          {libraries:.3f} s")
    ratio = listed / libraries
    print(f"penchant list                        {listed:.3f} s   {at_most(listed, 0.3)}")
    print(f"  that is {ratio:.2f} times the import                {at_most(ratio, 3)}")
    print(f"penchant explain output-spread       {explained:.3f} s   {at_most(explained, 0.4)}")


def kilobytes(context, item):
    """A shard that does nothing but return 96 KB."""
    return {"values": VALUES}


def map_overhead(folder):
    """Seconds a shard of a function that costs nothing."""
    job = build({**RAW, "probes": [{"name": "output-spread"}]}, discovery.load()).jobs("cpu")[0]
    shards = 200
    list(Context(job, folder / "warm").map(kilobytes, range(2)))  # imports are not overhead
    started = time.perf_counter()
    for _ in Context(job, folder).map(kilobytes, range(shards)):
        pass
    return (time.perf_counter() - started) / shards


def recognise(folder):
    """Seconds to find that a thousand jobs are done; all have the result of the first, which saves the time to compute them."""
    raw = {**RAW, "seeds": list(range(1000)), "probes": [{"name": "output-spread", "networks": 2}]}
    plugins = discovery.load()
    first, *others = build(raw, plugins).jobs("cpu")
    found = run_job(Context(first, folder))
    for job in others:
        store_result(job, folder, found)
    run_experiment(build(raw, plugins), plugins, folder)
    return best(lambda: run_experiment(build(raw, plugins), plugins, folder), 3)


def main():
    """Print what the kernel costs."""
    commands()
    with tempfile.TemporaryDirectory() as folder:
        overhead = 1000 * map_overhead(Path(folder) / "map")
        print(f"context.map, a shard, serially       {overhead:.2f} ms   {at_most(overhead, 5)}")
        seconds = recognise(Path(folder) / "jobs")
        print(f"1,000 finished jobs are recognised   {seconds:.2f} s   {at_most(seconds, 5)}")


if __name__ == "__main__":
    main()
