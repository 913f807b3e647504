"""What a large grid costs; `bench_queue.py` measures what spreading it costs.

    python tests/benchmarks/bench_scale.py

On a machine with other work the numbers say little: the load is printed as well.
"""

import contextlib
import os
import tempfile
import time
from pathlib import Path

import penchant
from penchant.execution.attempts import store_result
from penchant.execution.runner import run_experiment
from penchant.experiments.experiment import build
from penchant.plugins import discovery
from penchant.results.result import Result
from penchant_report.report import write_report
from targets import at_most

GRID = 10_000


@contextlib.contextmanager
def timed(found):
    """Put the seconds of what happens inside into a list."""
    started = time.perf_counter()
    yield
    found.append(time.perf_counter() - started)


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
            store_result(job, folder, Result({"spread": quantity}, {"means": [1.0, 2.0]}))
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
    print(f"{GRID} trivial jobs: planned in {planned:.1f} s   {at_most(planned, 10)}")
    print(f"  resumed when finished in {resumed:.1f} s   {at_most(resumed, 30)}")
    print(f"  report in {reported:.1f} s, {size:.1f} MB   {at_most(size, 20)}")
    print(f"  read as a table in {read:.1f} s")


def main():
    """The grid, and how busy the machine was."""
    load = os.getloadavg()[0]
    print(f"load of this machine before: {load:.1f} on {os.cpu_count()} cores")
    grid()


if __name__ == "__main__":
    main()
