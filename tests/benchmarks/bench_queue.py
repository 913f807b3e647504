"""What spreading jobs and shards over workers costs, beside an older version where one is given.

    PENCHANT_OLD=FOLDER python tests/benchmarks/bench_queue.py [NAME...] [--rounds N]

FOLDER is a checkout of the older version, such as `git worktree add FOLDER f713196`. Every
measurement runs in a process of its own, old and new in turns, and the medians are printed. What
workers take to start is excluded from all but the grids. The load of the machine is printed: on a
busy one the ratios say little.
"""

import argparse
import contextlib
import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNEQUAL = (1, 2, 3, 4, 6, 8, 12, 20)  # shards of eight jobs, the longest last
SECONDS = 0.1  # per shard
FINISHED = 10_000
PLUGIN = '''
import os, pathlib, time
import attrs
import numpy as np
import penchant

HERE = []

@attrs.frozen
class Timed(penchant.Probe):
    """Shards that compute or wait, and say when."""
    name = "timed"
    target = "penchant_timed:run"
    quantities = {"count": "of shards"}
    arrays = {"times": "begin and end of each shard"}
    presets = {"quick": {}}
    shards: int = penchant.option(1, "how many")
    seconds: float = penchant.option(0.0, "that a shard waits")
    work: int = penchant.option(0, "products of matrices that a shard computes")
    meet: str = penchant.option("", "folder where two workers meet before the first of them begins")

def run(options, context):
    if options.shards == 0:
        time.sleep(options.seconds)
        return penchant.Result({"count": penchant.Quantity(0, exact=True)}, {"times": [[0.0, 0.0]]})
    times = [shard["times"] for shard in context.map(shard, list(range(options.shards)))]
    count = penchant.Quantity(len(times), exact=True)
    return penchant.Result({"count": count}, {"times": np.array(times)})

def shard(context, item):
    import torch
    options = context.options
    if options.meet and options.meet not in HERE:
        HERE.append(options.meet)
        folder = pathlib.Path(options.meet)
        folder.mkdir(exist_ok=True)
        (folder / str(os.getpid())).touch()
        deadline = time.monotonic() + 60.0
        while len(list(folder.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.005)
    began = time.time()
    if options.seconds:
        time.sleep(options.seconds)
    matrix = torch.ones(200, 200, device="cpu")
    for _ in range(options.work):
        matrix = matrix @ matrix / 200
    return {"times": np.array([began, time.time()])}

@penchant.hookimpl
def penchant_probes():
    return [Timed]
'''


def install(folder):
    """Put the plugin where every process of a measurement finds it."""
    info = folder / "penchant_timed-1.0.dist-info"
    info.mkdir()
    (folder / "penchant_timed.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: penchant-timed\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[penchant]\ntimed = penchant_timed\n")


def run(folder, *probes, seeds=1, **settings):
    """Run the probe in two workers; gives the run and the seconds it took."""
    import penchant

    raw = {
        "probes": [{"name": "timed", **probe} for probe in probes],
        "seeds": list(range(seeds)),
        "executor": "processes",
        "workers": 2,
        "figures": False,
        "device": "cpu",
        **settings,
    }
    began = time.perf_counter()
    done = penchant.run(raw, out=folder / "run", progress=False)
    seconds = time.perf_counter() - began
    assert done.done
    return done, seconds


def span(done):
    """Seconds from the beginning of the first shard to the end of the last."""
    times = [result.arrays["times"] for result in done.results()]
    return max(each[:, 1].max() for each in times) - min(each[:, 0].min() for each in times)


def quickstart(folder):
    """What the quickstart measures, small and with figures; seconds of the whole run."""
    import penchant

    # Not its quick form, which is another one in each version.
    trained = {"name": "directional-accuracy", "architectures": ["mlp"], "indices": [0, 10]}
    small = {"networks": 20, "train": 200, "test": 200, "training": {"steps": 20}}
    raw = {
        "shape": [1, 16, 16],
        "architectures": [{"name": "logistic"}, {"name": "mlp"}],
        "probes": [{"name": "nad", "networks": 20}, {**trained, **small}],
        "workers": 2,
        "device": "cpu",
    }
    began = time.perf_counter()
    done = penchant.run(raw, out=folder / "run", progress=False)
    assert done.done
    return time.perf_counter() - began


def results(folder):
    """The same until the last result is stored: without the report, which one version draws more of."""
    began = time.time()
    quickstart(folder)
    stored = [path.stat().st_mtime for path in folder.glob("run/jobs/*/result.json")]
    return max(stored) - began


def grid(folder):
    """200 small jobs, seconds of the whole run."""
    _, seconds = run(folder, {"shards": 2, "work": 20}, seeds=200)
    return seconds


def shards(folder):
    """64 shards of one job, which compute, in seconds."""
    done, _ = run(folder, {"shards": 64, "work": 200, "meet": str(folder / "meet")})
    return span(done)


def last(folder):
    """Four short jobs and a long one, divided by the time of two workers that are never idle."""
    meet = str(folder / "meet")
    short = {"shards": 1, "seconds": SECONDS, "meet": meet}
    probes = [{**short, "label": f"short-{number}"} for number in range(4)]
    done, _ = run(folder, *probes, {**short, "label": "long", "shards": 40})
    return span(done) / (44 * SECONDS / 2)


def unequal(folder):
    """Eight unequal jobs, divided by the time of the best order."""
    common = {"seconds": SECONDS, "meet": str(folder / "meet")}
    probes = [{**common, "label": f"of-{count}", "shards": count} for count in UNEQUAL]
    done, _ = run(folder, *probes)
    return span(done) / (sum(UNEQUAL) * SECONDS / 2)


def shard(folder):
    """What a worker takes for a shard that does nothing, in ms."""
    done, _ = run(folder, {"shards": 400, "meet": str(folder / "meet")})
    return span(done) * 2 / 400 * 1e3


def finished(folder):
    """10,000 finished jobs are recognised, in seconds."""
    import penchant
    from penchant.execution.job.attempts import store_result
    from penchant.execution.runner import run_experiment
    from penchant.experiments.experiment import build
    from penchant.plugins import discovery
    from penchant.results.result import Result

    raw = {"probes": [{"name": "timed"}], "seeds": list(range(FINISHED)), "figures": False}
    plugins = discovery.load()
    experiment = build({**raw, "executor": "serial", "device": "cpu"}, plugins, "bench")
    result = Result({"count": penchant.Quantity(1, exact=True)}, {"times": [[0.0, 1.0]]})
    for job in experiment.jobs("cpu"):
        (folder / "run" / "jobs" / job.id).mkdir(parents=True)
        store_result(job, folder / "run", result)
    began = time.perf_counter()
    assert run_experiment(experiment, plugins, folder / "run").done
    return time.perf_counter() - began


def idle(folder):
    """A worker that waits while another has a job without shards, in percent of a core."""
    code = "import sys, bench_queue; bench_queue.wait_for_nothing(sys.argv[1])"
    place = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], env=place)
    try:
        # On a busy machine it takes long until a worker waits.
        deadline = time.monotonic() + 200.0
        waits = folder / "run" / "queue" / "idle"
        while not (waits.is_dir() and list(waits.iterdir())) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(3.0)
        before = cpu_seconds(process.pid)
        time.sleep(5.0)
        after = cpu_seconds(process.pid)
    finally:
        process.wait()
    used = [after[each] - before[each] for each in before if each in after]
    return 100 * max(used) / 5.0


def wait_for_nothing(folder):
    """A run whose workers have nothing to do: two jobs that sleep, one of them longer."""
    probes = [{"label": "short", "shards": 0}, {"label": "long", "shards": 0, "seconds": 25.0}]
    run(Path(folder), *probes)


def cpu_seconds(process):
    """CPU time of a process and all that it started, each by itself."""
    found = {process: on_cpu(process)}
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        for child in path.read_text().split():
            found |= cpu_seconds(int(child))
    return found


def on_cpu(process):
    """Seconds that all threads of a process have been on a core."""
    files = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(path.read_text().split()[0]) for path in files) / 1e9


# What is measured, its unit, and what new must not exceed: a ratio to the old, or a number.
MEASURED = {
    "quickstart": (quickstart, "s", 1.05, None),
    "results": (results, "s", 1.05, None),
    "grid": (grid, "s", 1.05, None),
    "shards": (shards, "s", 1.0, None),
    "last": (last, "of the best", None, 1.1),
    "unequal": (unequal, "of the best", None, 1.1),
    "shard": (shard, "ms", None, 5.0),
    "finished": (finished, "s", None, 10.0),
    "idle": (idle, "% of a core", None, 1.0),
}


def python_of(checkout):
    """The interpreter of a checkout, which knows its plugins; else this one."""
    own = checkout / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def measured(name, checkout):
    """One measurement with the code of a checkout, in a process of its own."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        site = folder / "site"
        site.mkdir()
        install(site)
        sources = [site, checkout / "framework", *checkout.glob("plugins/*/src")]
        place = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sources))}
        call = [python_of(checkout), __file__, "--one", name, "--folder", text]
        before = cpu_of_children()
        done = subprocess.run(call, env=place, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name} with {checkout}: {done.stderr}")
        return json.loads(done.stdout.splitlines()[-1]), cpu_of_children() - before


def adopt_orphans():
    """Wait for the processes of a run whose parent has ended, so that their CPU time counts."""
    set_child_subreaper = 36  # of Linux, as in sys/prctl.h
    ctypes.CDLL(None).prctl(set_child_subreaper, 1)


def cpu_of_children():
    """CPU seconds of all processes that were started and have ended."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(name, rounds, old):
    """Old and new in turns; prints medians of what is measured, and of CPU seconds of it all."""
    _, unit, ratio, limit = MEASURED[name]
    # The old version stores results in another way, and does not say who waits.
    comparable = old is not None and name not in ("finished", "idle")
    checkouts = {"old": old, "new": ROOT} if comparable else {"new": ROOT}
    found = {each: [] for each in checkouts}
    for _ in range(rounds):
        for each, checkout in checkouts.items():
            found[each].append(measured(name, checkout))
    medians = {each: [statistics.median(column) for column in zip(*found[each])] for each in found}
    cells = [
        f"{each} {value:.3g} {unit}, CPU {cpu:.1f} s" for each, (value, cpu) in medians.items()
    ]
    if len(medians) == 2:
        value, cpu = (new / before for new, before in zip(medians["new"], medians["old"]))
        cells.append(f"ratio {value:.2f}, CPU {cpu:.2f}")
    target = f"ratio at most {ratio}" if limit is None else f"at most {limit:g} {unit}"
    load = os.getloadavg()[0]
    print(f"{name:10} {'; '.join(cells)}   ({target}; load {load:.1f})", flush=True)


def main():
    """All of it, or what was named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(float(MEASURED[options.one][0](Path(options.folder)))))
        return
    adopt_orphans()
    old = os.environ.get("PENCHANT_OLD")
    print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for name in options.names or MEASURED:
        compare(name, options.rounds, Path(old) if old else None)


if __name__ == "__main__":
    main()
