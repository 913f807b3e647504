"""What the executor `ray` adds to plain Ray, in one run on one cluster of logical CPUs.

    python tests/benchmarks/bench_ray.py [--rounds 5] [--cpus 16] [--scaling 4 8 16 32]

Shards sleep, or do nothing, so that two cores stand for many. Plain Ray is
`ray.get([task.remote(i) ...])` from the driver, with the same answers, in workers that have loaded
torch as well. Both take turns, and medians are compared. `--scaling` measures shards per second
against logical CPUs instead, on nodes of `ray.cluster_utils`: each has a process per CPU, with
torch (about 0.2 GB), which is what limits how far one machine can show it.
"""

import argparse
import contextlib
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import ray
from targets import at_most

PLUGIN = '''
import time
import attrs
import numpy as np
import penchant

@attrs.frozen
class Benched(penchant.Probe):
    """Shards that sleep and give bytes."""
    name = "benched"
    target = "penchant_benched:run"
    quantities = {"seconds": "of the map"}
    arrays = {"last": "of the answers"}
    presets = {"quick": {}}
    shards: int = penchant.option(0, "how many")
    seconds: float = penchant.option(0.0, "that a shard sleeps")
    size: int = penchant.option(8, "bytes of an answer")
    shared: int = penchant.option(0, "bytes that all shards share")

def run(options, context):
    shared = {"shared": np.zeros(options.shared // 8)} if options.shared else None
    began = time.perf_counter()
    last = np.zeros(1)
    for answer in context.map(shard, list(range(options.shards)), shared=shared):
        last = answer["value"]
    seconds = time.perf_counter() - began
    quantity = penchant.Quantity(seconds, exact=True)
    return penchant.Result({"seconds": quantity}, {"last": np.atleast_1d(last)[:1]})

def shard(context, item):
    time.sleep(context.options.seconds)
    return {"value": np.full(max(1, context.options.size // 8), float(item))}

@penchant.hookimpl
def penchant_probes():
    return [Benched]
'''


def install(folder):
    """Put the plugin where the command and all nodes find it."""
    info = folder / "penchant_benched-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "penchant_benched.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: penchant-benched\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[penchant]\nbenched = penchant_benched\n")
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])


def ours(folder, *, seeds=1, **options):
    """The seconds of the map of a run, or of a whole run where there are several jobs."""
    import penchant

    raw = {
        "probes": [{"name": "benched", **options}],
        "seeds": list(range(seeds)),
        "executor": "ray",
        "figures": False,
    }
    began = time.perf_counter()
    run = penchant.run(raw, out=folder / f"run-{time.monotonic_ns()}", progress=False)
    assert run.done, [job.get("error") for job in run.jobs][:1]
    whole = time.perf_counter() - began
    seconds = run.results()[0].quantities["seconds"].value if seeds == 1 else whole
    shutil.rmtree(run.folder)
    return seconds


@ray.remote
def plain_shard(item, seconds, size):
    import numpy as np

    time.sleep(seconds)
    return {"value": np.full(max(1, size // 8), float(item))}


@ray.remote
def load():
    import torch  # noqa: F401

    time.sleep(2.0)
    return os.getpid()


def plain(shards, seconds=0.0, size=8):
    """Seconds of the same shards by Ray alone."""
    began = time.perf_counter()
    ray.get([plain_shard.remote(item, seconds, size) for item in range(shards)])
    return time.perf_counter() - began


def warm(cpus, folder):
    """Start as many workers as there are CPUs, each with torch."""
    processes = set()
    for _ in range(30):
        processes |= set(ray.get([load.remote() for _ in range(cpus)]))
        if len(processes) >= cpus:
            break
    ours(folder, shards=8 * cpus, seconds=0.3)


def compare(what, rounds, folder, target, **options):
    """Both in turns; the ratio of medians."""
    pairs = [(ours(folder, **options), plain(**options)) for _ in range(rounds)]
    mine, theirs = (statistics.median(column) for column in zip(*pairs))
    each = ", ".join(f"{one / other:.2f}" for one, other in pairs)
    verdict = at_most(mine / theirs, target)
    print(f"{what}: {mine:.2f} s, plain Ray {theirs:.2f} s: {mine / theirs:.2f} {verdict} [{each}]")


def stores():
    """Bytes that each node's object store holds, and has taken in all."""
    from ray._private.internal_api import node_stats

    found = {}
    for node in ray.nodes():
        if node["Alive"]:
            stats = node_stats(node["NodeManagerAddress"], node["NodeManagerPort"]).store_stats
            taken = stats.cumulative_created_bytes
            found[node["NodeID"]] = (stats.object_store_bytes_used, taken)
    return found


@contextlib.contextmanager
def watching_stores(seconds=0.2):
    """The most that the stores have held together, in a list."""
    import threading

    most, over = [0], threading.Event()

    def look():
        while not over.wait(seconds):
            with contextlib.suppress(ConnectionError, TimeoutError):
                most[0] = max(most[0], sum(held for held, _ in stores().values()))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


def memory():
    """Megabytes that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def speed(given, folder):
    ray.init(address="local", num_cpus=given.cpus, log_to_driver=False, include_dashboard=False)
    warm(given.cpus, folder)
    rounds = given.rounds
    compare(
        f"1,000 shards of 50 ms on {given.cpus} CPUs",
        rounds,
        folder,
        1.3,
        shards=1000,
        seconds=0.05,
    )
    compare(f"10,000 empty shards on {given.cpus} CPUs", rounds, folder, 1.3, shards=10_000)
    with watching_stores() as most:
        seconds = ours(folder, shards=given.answers, size=1_000_000)
    print(
        f"{given.answers} answers of 1 MB in {seconds:.1f} s: the store held at most {most[0] / 1e6:.0f} MB"
    )
    if given.jobs:
        ours(folder, seeds=500)
        before = memory()
        seconds = ours(folder, seeds=given.jobs)
        print(
            f"{given.jobs} jobs in {seconds:.0f} s ({1000 * seconds / given.jobs:.1f} ms each): "
            f"the command had {before:.0f} MB before and {memory():.0f} MB after"
        )
    ray.shutdown()


def carried(folder):
    """An array of 100 MB that 64 shards share, on a head without CPUs and two nodes."""
    with cluster([2, 2]):
        ours(folder, shards=16, seconds=0.5)
        before = stores()
        ours(folder, shards=64, seconds=0.1, shared=100_000_000)
        taken = [taken - before[node][1] for node, (_, taken) in stores().items()]
    text = ", ".join(f"{each / 1e6:.0f} MB" for each in sorted(taken))
    print(f"100 MB that 64 shards share: stores of a head and two nodes took {text}")


@contextlib.contextmanager
def cluster(nodes):
    """A head without CPUs, and nodes with some."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        for cpus in nodes:
            made.add_node(num_cpus=cpus)
        ray.init(address=made.address, log_to_driver=False)
        yield
    finally:
        ray.shutdown()
        made.shutdown()


def scaling(given, folder):
    for cpus in given.scaling:
        nodes = [min(16, cpus)] * max(1, cpus // 16)
        with cluster(nodes):
            warm(cpus, folder)
            count = 20 * cpus
            for seconds in (0.05, 1.0):
                took = ours(folder, shards=count, seconds=seconds)
                ideal = count * seconds / cpus
                print(
                    f"{cpus} CPUs, shards of {seconds:g} s: {count / took:.0f} a second, "
                    f"{100 * ideal / took:.0f} % of what sleeping alone allows",
                    flush=True,
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpus", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--answers", type=int, default=5000)
    parser.add_argument("--scaling", type=int, nargs="*")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="penchant-bench-"))
    install(folder / "site")
    print(f"load of the machine: {os.getloadavg()[0]:.1f}", flush=True)
    try:
        if given.scaling:
            scaling(given, folder)
        else:
            speed(given, folder)
            carried(folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
