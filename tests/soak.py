"""Kill a run again and again, and compare what is left with an uninterrupted one.

    python tests/soak.py --kills 60 --seconds 600

A grid of jobs runs in two workers, first on a Ray cluster of two nodes on this machine, then in
processes, and is disturbed at random moments: the main process by SIGKILL, SIGTERM and SIGINT,
workers by SIGKILL, and on Ray a node is removed and added again. When it is done the folder is
begun anew, until all kills are used. At the end of each folder every number, array and checkpoint
must equal those of one serial run, no figure may be missing, and no temporary file or shard left.
"""

import argparse
import collections
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXPERIMENT = """
title = "A grid to be killed"
figures = true

[[architectures]]
name = "perceptron"
[[architectures]]
name = "perceptron"
label = "wide"
width = 64

[[datasets]]
name = "two-blobs"

[[probes]]
name = "output-spread"
networks = 192
[[probes]]
name = "output-spread"
label = "more"
networks = 320
"""
VARYING = ("cost", "warnings")  # of a result: how long it took, and that it was computed again
STOPPED = (1, 130, 143, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT)


class Processes:
    """Where workers are processes of this machine."""

    name = executor = "processes"
    disturbances = ("main SIGKILL", "main SIGTERM", "main SIGINT", "worker SIGKILL")

    def workers(self, process):
        """Process ids of the children of a run."""
        path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        try:
            children = [int(text) for text in path.read_text().split()]
        except OSError:
            return []
        # One of the children is the tracker of resources, which does no work.
        return [child for child in children if "resource_tracker" not in command_of(child)]

    def close(self):
        """Nothing is left."""


class RayCluster:
    """Where workers are actors on two nodes, both on this machine."""

    name = "ray"
    disturbances = (*Processes.disturbances, "node removed")

    def __init__(self):
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        self.node = self.cluster.add_node(num_cpus=1)
        self.executor = f"ray:address={self.cluster.address}"

    def workers(self, process):
        """Process ids of the actors: Ray gives their processes a name."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            if command_of(int(path.name)).startswith("ray::Desk"):
                found.append(int(path.name))
        return found

    def disturb(self):
        """A node goes, with all that runs on it, and another one comes."""
        self.cluster.remove_node(self.node, allow_graceful=False)
        time.sleep(random.uniform(0.0, 5.0))
        self.node = self.cluster.add_node(num_cpus=1)

    def close(self):
        """Stop the cluster."""
        self.cluster.shutdown()


def command_of(process):
    """The command line of a process; empty where it has gone."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def start(folder, experiment, executor):
    """Start a run as a user would, in a process group of its own."""
    call = [sys.executable, "-m", "penchant", "run", str(experiment), "--out", str(folder)]
    call += ["--executor", executor, "--workers", "2"]
    return subprocess.Popen(
        call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def disturb(place, process, how):
    """Cause one disturbance; False where there was nobody to disturb."""
    if how == "node removed":
        place.disturb()
        return True
    who, _, name = how.partition(" ")
    number = getattr(signal, name)
    with contextlib.suppress(ProcessLookupError):
        if who == "main":
            process.send_signal(number)
            return process.poll() is None or process.returncode < 0
        workers = place.workers(process)
        if workers:
            os.kill(random.choice(workers), number)
            return True
    return False


def contents(folder):
    """What must not depend on kills: results without their cost, arrays, figures."""
    found = {}
    for path in sorted(folder.glob("jobs/*/*")):
        name = str(path.relative_to(folder))
        if path.name == "result.json":
            record = json.loads(path.read_text())
            kept = {key: value for key, value in record.items() if key not in VARYING}
            found[name] = json.dumps(kept, sort_keys=True)
        elif path.name == "figures":
            found[name] = tuple(sorted(each.name for each in path.iterdir()))
        else:
            found[name] = path.read_bytes() if path.is_file() else "a folder"
    return found


def stale(folder):
    """Temporary files and shards that nobody needs any more."""
    hidden = [path for path in folder.rglob(".*") if path.name != ".lock"]
    return [*hidden, *folder.rglob("*.damaged"), *folder.glob("jobs/*/shards")]


def compared(folder, expected):
    """What differs from the uninterrupted run."""
    found = contents(folder)
    problems = [f"lost: {name}" for name in expected.keys() - found.keys()]
    problems += [f"left over: {name}" for name in found.keys() - expected.keys()]
    for name in expected.keys() & found.keys():
        if expected[name] != found[name]:
            problems.append(f"differs: {name}")
    problems += [f"stale: {path.relative_to(folder)}" for path in stale(folder)]
    return problems


class Soak:
    """A grid, what an uninterrupted run of it gives, and what has happened so far."""

    def __init__(self, seeds, pause):
        self.base = Path(tempfile.mkdtemp(prefix="penchant-soak-"))
        self.experiment = self.base / "grid.toml"
        self.experiment.write_text(f"seeds = {list(range(seeds))}\n{EXPERIMENT}")
        self.jobs = 4 * seeds
        self.pause = pause
        self.problems = []
        reference = start(self.base / "reference", self.experiment, "serial")
        _, told = reference.communicate()
        assert reference.returncode == 0, told
        self.expected = contents(self.base / "reference")

    def run(self, place, kills, seconds):
        """Disturb until all kills are used or the time is over; says what happened."""
        sent = collections.Counter()
        folders = 0
        deadline = time.monotonic() + seconds
        while sum(sent.values()) < kills and time.monotonic() < deadline:
            folders += 1
            folder = self.base / f"{place.name}-{folders}"
            self._until_done(place, folder, kills, sent)
            self.problems += compared(folder, self.expected)
            print(f"{place.name} folder {folders}: {sum(sent.values())} kills so far", flush=True)
            shutil.rmtree(folder)
        print(f"{place.name}: {sum(sent.values())} kills {dict(sent)}")
        print(f"{place.name}: {folders} folders of {self.jobs} jobs, {len(self.problems)} problems")

    def _until_done(self, place, folder, kills, sent):
        """Run, disturb, run again, until every job is done."""
        code = None
        while code != 0:
            process = start(folder, self.experiment, place.executor)
            self._disturb(place, process, kills, sent)
            _, told = process.communicate()
            code = process.returncode
            if code not in (0, *STOPPED):
                self.problems.append(f"exit code {code}: {told[-500:]}")
                return

    def _disturb(self, place, process, kills, sent):
        """Disturb a run until it ends, its main process is hit, or no kills are left."""
        while process.poll() is None and sum(sent.values()) < kills:
            # Long enough that workers reach work, most of the time.
            time.sleep(random.uniform(*self.pause))
            if process.poll() is not None:
                return
            how = random.choice(place.disturbances)
            if disturb(place, process, how):
                sent[how] += 1
                print(f"  {time.strftime('%H:%M:%S')} {how}", flush=True)
            if how.startswith("main"):
                return

    def close(self):
        """Leave nothing, and say what was wrong."""
        shutil.rmtree(self.base)
        print("\n".join(self.problems))
        return not self.problems


def main(arguments=None):
    """Read how many kills, and kill."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=9, help="of the grid: four jobs each")
    parser.add_argument("--pause", type=float, nargs=2, default=(1.0, 9.0))
    parser.add_argument("--executors", nargs="*", default=["ray", "processes"])
    options = parser.parse_args(arguments)
    random.seed(options.seed)
    soak = Soak(options.seeds, options.pause)
    share = len(options.executors)
    for name in options.executors:
        place = RayCluster() if name == "ray" else Processes()
        try:
            # Each has its share of the kills, and of the time.
            soak.run(place, -(-options.kills // share), options.seconds / share)
        finally:
            place.close()
    return 0 if soak.close() else 1


if __name__ == "__main__":
    sys.exit(main())
