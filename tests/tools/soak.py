"""Kill a run again and again, and compare what is left with an uninterrupted one.

    python tests/tools/soak.py --kills 60 --seconds 600

A grid of jobs runs in two workers, first on a Ray cluster of two nodes on this machine, then in
processes, then in processes of two commands on one folder. It is disturbed: a command by SIGKILL,
SIGTERM and SIGINT, workers by SIGKILL and SIGTERM, the server that workers are forked from by
SIGKILL; on Ray the actor beside the command by SIGKILL, and a node is removed and added again. Most disturbances come a moment after the run has left something new, so that they hit work;
the others at any moment, also while a run starts. When a folder is done another one is begun, until
all kills are used. At the end of each folder every number, array, checkpoint and figure must equal
those of one serial run, and no temporary file, shard or lock may be left. A run in which nothing
happens for minutes is a problem as well.
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

from forked_command import Forked

EXPERIMENT = """
title = "A grid to be killed"

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
networks = 96
[[probes]]
name = "learning"
"""
# Small, because most of a soak is the start of processes: a training, shards, arrays, a figure.
PLUGIN = '''
import attrs
import penchant

@attrs.frozen
class Learning(penchant.Probe):
    """The loss along a training, and random numbers of shards."""
    name = "learning"
    question = "Does a killed training go on as if nothing had happened?"
    target = "penchant_soaked:run"
    figures = "penchant_soaked:draw"
    needs = ("architecture", "dataset")
    quantities = {"total": "of all shards"}
    arrays = {"weights": "norm after 0, 10 and 20 steps", "parts": "one a shard"}
    presets = {"quick": {"training": {"steps": 20, "batch": 16}}}

def run(options, context):
    weights = []
    for _, network in context.trained([0, 10, 20]):
        weights.append(sum(float(each.detach().norm()) for each in network.parameters()))
    parts = [part["value"] for part in context.map(shard, [0, 1, 2, 3])]
    quantity = penchant.Quantity(sum(parts), exact=True)
    return penchant.Result({"total": quantity}, {"weights": weights, "parts": parts})

def shard(context, item):
    import torch
    network = context.network(item)
    inputs = context.data.train.inputs
    noise = torch.randn(inputs.shape, generator=context.generator("noise", item), device="cpu")
    with torch.no_grad():
        return {"value": float(network(inputs + noise).double().mean())}

def draw(result):
    from matplotlib.figure import Figure
    figure = Figure(figsize=(3, 2))
    figure.subplots().plot(result.arrays["weights"])
    return {"weights": figure}

@penchant.hookimpl
def penchant_probes():
    return [Learning]
'''
VARYING = ("cost", "warnings")  # of a result: how long it took, and that it was computed again
STOPPED = (1, 130, 143, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT)
UNBORN = "workers in a row died before they could work"
SECONDS_OF_SILENCE = 300.0  # after which a run is taken for hung
AT_ANY_MOMENT = 0.2  # of the disturbances
ANYWHERE = (
    "main SIGKILL",
    "main SIGTERM",
    "main SIGINT",
    "worker SIGKILL",
    "worker SIGKILL",
    "worker SIGKILL",
    "worker SIGTERM",
)


class Processes:
    """Where workers are processes of this machine."""

    name = "processes"
    executor = "processes"
    commands = 1
    disturbances = (*ANYWHERE, "server SIGKILL")

    def workers(self, process):
        """Process ids of workers: children of the server that a run starts."""
        found = []
        for server in self.servers(process):
            found += children_of(server)
        return found

    def servers(self, process):
        """Process ids of what workers are forked from."""
        # Another child is the tracker of resources, which does no work.
        found = children_of(process.pid)
        return [child for child in found if "forkserver" in command_of(child)]

    def close(self):
        """Nothing is left."""


class Together(Processes):
    """Where two commands work in one folder, each with worker processes."""

    name = "together"
    commands = 2


class RayCluster:
    """Where jobs and shards are tasks on two nodes, both on this machine."""

    commands = 1

    name = "ray"
    disturbances = (*ANYWHERE, "node removed", "endpoint SIGKILL")

    def __init__(self):
        # This process has Ray's own handler of SIGTERM, which asks a cluster that is gone to drain.
        os.environ["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] = "0"
        from ray.cluster_utils import Cluster

        one = {"num_cpus": 1}
        self.cluster = patiently(lambda: Cluster(initialize_head=True, head_node_args=one))
        self.node = patiently(lambda: self.cluster.add_node(num_cpus=1))
        self.executor = f"ray:address={self.cluster.address}"

    def workers(self, process, names=("ray::do_job", "ray::do_shards")):
        """Process ids of the tasks: children of the nodes, to which Ray gives a name."""
        found = []
        for node in self.cluster.list_all_nodes():
            for started in node.all_processes["raylet"]:
                found += children_of(started.process.pid)
        return [child for child in found if command_of(child).startswith(names)]

    def endpoints(self, process):
        """Process id of the actor that tasks call the command through."""
        return self.workers(process, ("ray::Endpoint",))

    def disturb(self):
        """A node goes, with all that runs on it, and another one comes."""
        self.cluster.remove_node(self.node, allow_graceful=False)
        time.sleep(random.uniform(0.0, 5.0))
        self.node = patiently(lambda: self.cluster.add_node(num_cpus=1))

    def close(self):
        """Stop the cluster."""
        self.cluster.shutdown()


PLACES = {"ray": RayCluster, "processes": Processes, "together": Together}


def patiently(start):
    """What a start gives: on a busy machine a node of Ray may take longer than Ray waits for it."""
    for _ in range(4):
        with contextlib.suppress(Exception):
            return start()
    return start()


def children_of(process):
    """Process ids of the children of all threads of a process."""
    found = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(text) for text in path.read_text().split()]
    return found


def command_of(process):
    """The command line of a process; empty where it has gone."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def start(folder, experiment, executor, number):
    """Start a run as a user would, in a process group of its own; what it says goes to a file."""
    call = [sys.executable, "-m", "penchant", *arguments(folder, experiment, executor)]
    with open(told_by(experiment, number), "wb") as told:
        return subprocess.Popen(
            call, stdout=told, stderr=told, env=environment(experiment), start_new_session=True
        )


def start_alone(folder, experiment):
    """Start the serial run that nobody disturbs: a fork has torch from the beginning."""
    call = arguments(folder, experiment, "serial")
    scratch = experiment.parent / "said"
    scratch.mkdir()
    return Forked(call, experiment.parent, scratch, env=environment(experiment))


def arguments(folder, experiment, executor):
    """What follows `penchant`."""
    call = ["run", str(experiment), "--out", str(folder)]
    return [*call, "--executor", executor, "--workers", "2", "--quiet"]


def environment(experiment):
    """Variables with which the plugin is found; a hung run says where when it is aborted."""
    site = str(experiment.parent / "site")
    path = os.pathsep.join([site, os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1"}


def told_by(experiment, number):
    """The file with what the last run with this number said."""
    return experiment.with_name(f"told-{number}.txt")


def end_of(process, folder):
    """The exit code of a run; None where nothing happened for minutes, and it was aborted."""
    before = left_by(folder)
    since = time.monotonic()
    while process.poll() is None:
        time.sleep(0.2)
        if left_by(folder) != before:
            before = left_by(folder)
            since = time.monotonic()
        elif time.monotonic() - since > SECONDS_OF_SILENCE:
            process.send_signal(signal.SIGABRT)
            process.wait()
            return None
    return process.returncode


def left_by(folder):
    """How many files there are: a run that works leaves more and more."""
    # Not with `glob`, which fails where a folder goes while it looks.
    found = 0
    for part in ("jobs", "networks"):
        found += sum(len(names) for _, _, names in os.walk(folder / part))
    return found


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
            return True
        find = {"server": "servers", "endpoint": "endpoints"}.get(who, "workers")
        found = getattr(place, find)(process)
        if found:
            os.kill(random.choice(found), number)
            return True
    return False


def contents(folder):
    """What must not depend on kills: results without their cost, arrays, checkpoints, figures."""
    found = {}
    for path in sorted([*folder.glob("jobs/**/*"), *folder.glob("networks/*/*.pt")]):
        if path.is_dir():
            continue
        name = str(path.relative_to(folder))
        found[name] = path.read_bytes()
        if path.name == "result.json":
            record = json.loads(found[name])
            kept = {key: value for key, value in record.items() if key not in VARYING}
            found[name] = json.dumps(kept, sort_keys=True)
    return found


def stale(folder):
    """Temporary files, locks and shards that no command needs any more."""
    hidden = [path for path in folder.rglob(".*") if path.name != ".lock"]
    left = [*folder.glob("queue"), *folder.glob("queue/**/*"), *folder.glob("jobs/*/shards")]
    return [*hidden, *folder.rglob("*.damaged"), *left]


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

    def __init__(self, seeds, pause, large=None):
        self.base = Path(tempfile.mkdtemp(prefix="penchant-soak-"))
        self._install()
        self.experiment = self.base / "grid.toml"
        self.experiment.write_text(f"seeds = {list(range(seeds))}\n{EXPERIMENT}")
        self.jobs = 4 * seeds
        self.pause = pause
        self.large = large
        self.problems = []
        folder = self.base / "reference"
        code = end_of(start_alone(folder, self.experiment), folder)
        assert code == 0, (self.base / "said" / "stderr").read_text()
        self.expected = contents(folder)
        results = [name for name in self.expected if name.endswith("result.json")]
        assert len(results) == self.jobs

    def _install(self):
        """Put the plugin where every process of a run finds it."""
        info = self.base / "site" / "penchant_soaked-1.0.dist-info"
        info.mkdir(parents=True)
        (info.parent / "penchant_soaked.py").write_text(PLUGIN)
        name = "Metadata-Version: 2.1\nName: penchant-soaked\nVersion: 1.0\n"
        (info / "METADATA").write_text(name)
        (info / "entry_points.txt").write_text("[penchant]\nsoaked = penchant_soaked\n")
        # The nodes of a cluster are started from here.
        known = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(info.parent), known])

    def run(self, place, kills, seconds):
        """Disturb until all kills are used or the time is over; says what happened."""
        sent = collections.Counter()
        folders = lost = 0
        deadline = time.monotonic() + seconds
        while sum(sent.values()) < kills and time.monotonic() < deadline:
            folders += 1
            folder = self.base / f"{place.name}-{folders}"
            self._until_done(place, folder, sent, (kills, deadline))
            problems = compared(folder, self.expected)
            lost += sum(problem.startswith("lost") for problem in problems)
            self.problems += [f"{place.name} folder {folders}: {text}" for text in problems]
            print("\n".join(self.problems[-20:]), flush=True)
            print(
                f"{place.name} folder {folders}: {sum(sent.values())} kills so far, "
                f"{len(problems)} problems",
                flush=True,
            )
            shutil.rmtree(folder)
        told = ", ".join(f"{how} {count}" for how, count in sorted(sent.items()))
        print(f"{place.name}: {sum(sent.values())} kills ({told})")
        print(
            f"{place.name}: {folders} folders of {self.jobs} jobs, {lost} files lost, "
            f"{len(self.problems)} problems",
            flush=True,
        )

    def _until_done(self, place, folder, sent, limits):
        """Run, disturb, run again, until every job is done."""
        while True:
            started = []
            for number in range(place.commands):
                started.append(start(folder, self.experiment, place.executor, number))
            self._disturb(place, started, folder, sent, limits)
            codes = [end_of(process, folder) for process in started]
            for number, code in enumerate(codes):
                told = told_by(self.experiment, number).read_text(errors="replace")
                # A run whose workers are all killed while they start gives up, and says so.
                if code not in (0, *STOPPED) and not (code == 2 and UNBORN in told):
                    why = "hung" if code is None else f"exit code {code}"
                    self.problems.append(f"{why}: {told[-3000:]}")
                    print(self.problems[-1], flush=True)
                    return
            if 0 in codes:
                return

    def _disturb(self, place, started, folder, sent, limits):
        """Disturb commands until all have ended or were hit, or no kills are left."""
        kills, deadline = limits
        left = list(started)
        while sum(sent.values()) < kills and time.monotonic() < deadline:
            if not self._moment(left, folder, deadline):
                return
            how = self._choice(place.disturbances)
            process = random.choice(left)
            if disturb(place, process, how):
                sent[how] += 1
                print(f"  {time.strftime('%H:%M:%S')} {how}", flush=True)
            if how.startswith("main"):
                left.remove(process)

    def _choice(self, disturbances):
        """What happens next; what takes a whole start to recover from may be made rare."""
        if self.large is None:
            return random.choice(disturbances)
        large = random.random() < self.large
        return random.choice([each for each in disturbances if each.startswith("worker") != large])

    def _moment(self, left, folder, deadline):
        """Wait for a moment to disturb; False where the commands have ended before it."""
        if random.random() > AT_ANY_MOMENT:
            before = left_by(folder)
            since = time.monotonic()
            while left_by(folder) <= before and any(each.poll() is None for each in left):
                time.sleep(0.05)
                if time.monotonic() - since > SECONDS_OF_SILENCE or time.monotonic() > deadline:
                    return False
        time.sleep(random.uniform(*self.pause))
        left[:] = [each for each in left if each.poll() is None]
        return bool(left)

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
    parser.add_argument("--pause", type=float, nargs=2, default=(0.0, 4.0))
    help = "of the disturbances that hit a command, a server or a node; by default as they come"
    parser.add_argument("--large", type=float, help=help)
    parser.add_argument("--executors", nargs="*", default=["ray", "processes", "together"])
    options = parser.parse_args(arguments)
    random.seed(options.seed)
    soak = Soak(options.seeds, options.pause, options.large)
    share = len(options.executors)
    for name in options.executors:
        place = PLACES[name]()
        try:
            # Each has its share of the kills, and of the time.
            soak.run(place, -(-options.kills // share), options.seconds / share)
        finally:
            place.close()
    return 0 if soak.close() else 1


if __name__ == "__main__":
    sys.exit(main())
