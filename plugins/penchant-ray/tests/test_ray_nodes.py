"""Three machines without a common disk: own code and data are at the command only."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import isolated_nodes
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(isolated_nodes.obstacle()), reason=isolated_nodes.obstacle() or "none"),
]

HOME = "/tmp/home"  # of the user, on the head only
EXPERIMENT = """
store_networks = true

[[architectures]]
name = "import"
factory = "own_network:make"
label = "own"

[[datasets]]
name = "fashion-mnist"
per_class = 40
test_per_class = 10

[training]
steps = 150
batch = 32

[[probes]]
name = "neural-collapse"
largest = 64
[[probes]]
name = "neural-collapse"
label = "fewer"
largest = 32
[[probes]]
name = "neural-collapse"
label = "test-samples"
split = "test"
largest = 64
[[probes]]
name = "output-spread"
networks = 160
"""
NETWORK = """
import torch

def make(shape, outputs):
    from own_parts import hidden
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(784, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, outputs)
    )
"""
WAITING = """
import attrs
import penchant

@attrs.frozen
class Waiting(penchant.Probe):
    \"\"\"Shards that wait.\"\"\"
    name = "waiting"
    target = "own_probe:run"
    quantities = {"total": "of all shards", "nodes": "how many"}
    presets = {"quick": {}}
    shards: int = penchant.option(8, "how many")
    seconds: float = penchant.option(0.5, "a shard")

def run(options, context):
    parts = list(context.map(wait, list(range(options.shards))))
    total = sum(part["value"] for part in parts)
    context.conventions["where"] = " ".join(sorted({part["where"] for part in parts}))
    return penchant.Result({"total": penchant.Quantity(total, exact=True)})

def wait(context, item):
    import ray, time, torch
    time.sleep(context.options.seconds)
    generator = context.generator("wait", item)
    where = ray.util.get_node_ip_address() if ray.is_initialized() else "here"
    return {"value": torch.rand((), generator=generator, device="cpu"), "where": where}
"""
RUN = """
import json, sys
import penchant
from penchant.plugins import discovery
from own_probe import Waiting

options = json.loads(sys.argv[1])
run = penchant.run(
    {"probes": [{"name": "waiting", "shards": 60, "seconds": 0.4}], "figures": False, **options},
    out=sys.argv[2], plugins=discovery.load().with_component(Waiting, penchant.Probe),
)
sys.exit(0 if run.done else 1)
"""
REFUSED = """
seeds = [0, 1, 2, 3, 4, 5]
figures = false
[[architectures]]
name = "perceptron"
[[datasets]]
name = "two-blobs"
[[probes]]
name = "neural-collapse"
"""
DATA = Path(os.environ.get("PENCHANT_DATA", "/nowhere")) / "fashion-mnist"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = isolated_nodes.Cluster(tmp_path_factory.mktemp("log") / "log", [HOME])
    try:
        for name, content in {
            "experiment.toml": EXPERIMENT,
            "own_network.py": NETWORK,
            "own_parts.py": "hidden = 24\n",
            "own_probe.py": WAITING,
            "run.py": RUN,
            "refused.toml": REFUSED,
        }.items():
            made.head.write(f"{HOME}/{name}", content)
        yield made
    finally:
        made.close()


def penchant_command(cluster, *arguments, executor=f"ray:address={isolated_nodes.ADDRESS}"):
    """`penchant` on the head, in the user's folder."""
    call = [isolated_nodes.BIN / "penchant", *arguments, "--executor", executor]
    line = f"cd {HOME} && export PENCHANT_DATA={HOME}/data && exec {' '.join(map(str, call))}"
    return ["bash", "-c", line]


def contents(machine, folder):
    """What must be the same: results without cost and time, arrays, networks."""
    script = (
        "import pathlib, sys, hashlib, json\n"
        "root = pathlib.Path(sys.argv[1]); found = {}\n"
        "for path in sorted([*root.glob('jobs/**/*'), *root.glob('networks/*/*.pt')]):\n"
        "    if path.is_file():\n"
        "        content = path.read_bytes()\n"
        "        if path.name == 'result.json':\n"
        "            content = json.dumps({**json.loads(content), 'cost': None}).encode()\n"
        "        found[str(path.relative_to(root))] = hashlib.sha256(content).hexdigest()\n"
        "print(json.dumps(found))\n"
    )
    return json.loads(machine.run(sys.executable, "-c", script, folder).stdout)


def see(run):
    """A failed command is shown with what it said."""
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.skipif(not DATA.is_dir(), reason="PENCHANT_DATA has no fashion-mnist")
def test_own_code_and_data_reach_nodes_that_have_neither(cluster):
    head = cluster.head
    for path in DATA.iterdir():
        head.write(f"{HOME}/data/fashion-mnist/{path.name}", path.read_bytes())
    for folder, more in (("serial", {"executor": "serial"}), ("found", {})):
        call = penchant_command(cluster, "run", "experiment.toml", "--out", folder, **more)
        see(head.run(*call, check=False, timeout=300))
    expected, found = contents(head, f"{HOME}/serial"), contents(head, f"{HOME}/found")
    assert found == expected
    # Three probes share one network.
    assert len({name.split("/")[1] for name in found if name.startswith("networks")}) == 1
    for node in cluster.machines[1:]:
        assert node.run("ls", HOME).stdout == ""


def start_waiting(cluster, folder, **options):
    """Start a run of shards that wait."""
    raw = {"executor": {"name": "ray", "address": isolated_nodes.ADDRESS}, **options}
    call = f"cd {HOME} && exec {sys.executable} run.py '{json.dumps(raw)}' {folder}"
    return cluster.head.start("bash", "-c", call)


def record_of(cluster, folder):
    """The record of the only job of a run."""
    (name,) = cluster.head.run("bash", "-c", f"ls -d {HOME}/{folder}/jobs/*").stdout.split()
    record = json.loads(cluster.head.read(f"{name}/result.json"))
    return record["quantities"]["total"]["value"], record["conventions"]["where"].split()


def shards_of(cluster, folder):
    """How many shards are stored."""
    listed = cluster.head.run("bash", "-c", f"ls {HOME}/{folder}/jobs/*/shards", check=False)
    return len(listed.stdout.split())


def wait_for_shards(cluster, folder, count):
    deadline = time.monotonic() + 120
    while shards_of(cluster, folder) < count:
        assert time.monotonic() < deadline, "nothing is stored"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def total(cluster):
    assert start_waiting(cluster, "alone", executor="serial").wait(120) == 0
    return record_of(cluster, "alone")[0]


def test_nodes_may_join_and_leave(cluster, total):
    running = start_waiting(cluster, "moving")
    wait_for_shards(cluster, "moving", 4)
    joined = cluster.join(wait=False)
    cluster.leave(cluster.machines[1])
    assert running.wait(240) == 0
    found, where = record_of(cluster, "moving")
    assert found == total
    cluster.wait(3)
    # What comes late is used by the next run at the latest.
    assert joined.ip in where or start_waiting(cluster, "again").wait(240) == 0


def test_a_command_that_is_killed_resumes_at_its_last_shard(cluster, total):
    running = start_waiting(cluster, "killed")
    wait_for_shards(cluster, "killed", 8)
    isolated_nodes.kill_inside(running.pid, signal.SIGKILL)
    running.wait(60)
    stored = shards_of(cluster, "killed")
    assert stored >= 8
    assert start_waiting(cluster, "killed").wait(240) == 0
    assert record_of(cluster, "killed")[0] == total


@pytest.mark.parametrize(
    ("hide", "told"),
    [
        (
            "mount -t tmpfs tmpfs {source}",
            "machine-{number} cannot import what a job needs: No module named 'penchant_class_structure'",
        ),
        (
            "cp -r {source} /tmp/changed && echo '# changed' >> /tmp/changed/penchant_class_structure/__init__.py"
            " && mount --bind /tmp/changed {source}",
            "penchant-class-structure is 0",
        ),
    ],
)
def test_a_node_with_other_packages_is_refused_by_name(cluster, hide, told):
    import penchant_class_structure

    node = cluster.machines[-1]
    source = Path(penchant_class_structure.__file__).parents[1]
    node.run("bash", "-ec", hide.format(source=source))
    try:
        call = penchant_command(cluster, "run", "refused.toml", "--fresh", "--out", "refused")
        found = cluster.head.run(*call, check=False, timeout=240)
    finally:
        node.run("umount", source)
    assert found.returncode == 2, found.stdout + found.stderr
    (line,) = [each for each in found.stderr.splitlines() if each.startswith("penchant: ")]
    assert told.format(number=node.number) in line
    assert f"machine-{node.number}" in line
