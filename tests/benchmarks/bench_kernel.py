"""What the kernel costs: listing, a shard, recognising a finished run."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from penchant import plugins as discovery
from penchant.context import Context
from penchant.experiment import build
from penchant.runner import _keep, run_experiment, run_job

RAW = {
    "architectures": [{"name": "perceptron"}],
    "datasets": [{"name": "two-blobs"}],
    "executor": "serial",
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


def command(*arguments):
    """Run a command as an installed program runs: with compiled files kept."""
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    subprocess.run(
        [sys.executable, "-m", "penchant", *arguments],
        check=True,
        capture_output=True,
        env=environment,
    )


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
    found = run_job(first, folder)
    for job in others:
        _keep(job, folder, found)
    run_experiment(build(raw, plugins), plugins, folder)
    return best(lambda: run_experiment(build(raw, plugins), plugins, folder), 3)


def main():
    print(
        f"penchant list                        {best(lambda: command('list')):.3f} s   (target 0.4)"
    )
    print(
        f"penchant explain output-spread       {best(lambda: command('explain', 'output-spread')):.3f} s   (target 0.4)"
    )
    with tempfile.TemporaryDirectory() as folder:
        print(
            f"context.map, a shard, serially       {1000 * map_overhead(Path(folder) / 'map'):.2f} ms   (target 5)"
        )
        print(
            f"1,000 finished jobs are recognised   {recognise(Path(folder) / 'jobs'):.2f} s   (target 5)"
        )


if __name__ == "__main__":
    main()
