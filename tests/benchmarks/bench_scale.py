"""What a large grid costs; `bench_queue.py` measures what spreading it costs.

    python tests/benchmarks/bench_scale.py

On a machine with other work the seconds say little: the load is printed as well. How the work grows
is told by CPU time, of the command and all its workers, which other work changes less.
"""

import contextlib
import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import penchant
from penchant.execution.job.attempts import store_result
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


FILE = """
seeds = [{seeds}]
executor = "processes"
workers = 2
figures = false
[[architectures]]
name = "perceptron"
[[datasets]]
name = "two-blobs"
[[probes]]
name = "output-spread"
networks = 2
"""
ADOPTS = 36  # PR_SET_CHILD_SUBREAPER: what a child leaves behind is this process's to wait for


def jobs_grow():
    """CPU time of a run of four times as many jobs."""
    ctypes.CDLL(None).prctl(ADOPTS, 1, 0, 0, 0)
    few, many = (cpu_of_run(jobs) for jobs in (1_500, 6_000))
    ratio = many / few
    print(
        f"1500 jobs {few:.1f} s of CPU, 6000 jobs {many:.1f} s: x {ratio:.2f}", at_most(ratio, 4.2)
    )


def cpu_of_run(jobs):
    """CPU time of the command, the server of its workers, and the workers."""
    with tempfile.TemporaryDirectory() as text:
        file = Path(text) / "grid.toml"
        file.write_text(FILE.format(seeds=", ".join(map(str, range(jobs)))))
        call = [sys.executable, "-m", "penchant", "run", str(file), "--quiet"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*call, "--out", f"{text}/run"], check=True, stdout=subprocess.DEVNULL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def quantities_grow():
    """CPU time of a report of ten times as many quantities, in one job and in many."""
    cpu_of_report(1, 10)  # what is loaded on first use
    for few, many in (((1, 1_000), (1, 10_000)), ((10, 100), (100, 100))):
        ratio = cpu_of_report(*many) / cpu_of_report(*few)
        named = f"report of {few[0]} x {few[1]} and {many[0]} x {many[1]} quantities"
        print(f"{named}: x {ratio:.1f} CPU", at_most(ratio, 11.0))


def cpu_of_report(jobs, each):
    """CPU time of a report of so many jobs with so many quantities."""
    raw = tomllib.loads(FILE.format(seeds=", ".join(map(str, range(jobs)))))
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        for job in build(raw, discovery.load(), "bench").jobs("cpu"):
            (folder / "jobs" / job.id).mkdir(parents=True)
            quantities = {
                f"quantity-{number}": penchant.Quantity(
                    1.0 + number, stderr=0.5, over="networks", null=0.0, count=9, df=8.0
                )
                for number in range(each)
            }
            store_result(job, folder, Result(quantities))
        run = penchant.read(folder)
        # The best of three: other work of the machine can only add to it.
        seconds = []
        for _ in range(3):
            began = time.process_time()
            write_report(run)
            seconds.append(time.process_time() - began)
    return min(seconds)


def main():
    """The grid, how work grows, and how busy the machine was."""
    load = os.getloadavg()[0]
    print(f"load of this machine before: {load:.1f} on {os.cpu_count()} cores")
    grid()
    jobs_grow()
    quantities_grow()


if __name__ == "__main__":
    main()
