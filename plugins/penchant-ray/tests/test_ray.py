"""The executor on Ray: what every executor does, and what only a cluster can."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import penchant
import penchant_testing as testing
import pytest
import ray
from ray.cluster_utils import Cluster

test_conforms = testing.conformance("penchant-ray", small={"ray": {}})

EXPERIMENT = {
    "architectures": [{"name": "import", "factory": testing.TINY, "label": "tiny"}],
    "datasets": [{"name": "import", "factory": testing.SAMPLES, "label": "classes"}],
    "seeds": [0, 1],
    "figures": False,
    "workers": 2,
}
SLOW = """
import os, time
import attrs
import penchant

@attrs.frozen
class Waiting(penchant.Probe):
    \"\"\"Shards that wait.\"\"\"
    name = "waiting"
    target = "penchant_waiting:run"
    quantities = {"total": "of all shards"}
    presets = {"quick": {}}
    shards: int = penchant.option(8, "how many")
    seconds: float = penchant.option(0.5, "a shard")

def run(options, context):
    total = 0.0
    for part in context.map(wait, list(range(options.shards))):
        total += part["value"]
    return penchant.Result({"total": penchant.Quantity(total, exact=True)})

def wait(context, item):
    import torch
    time.sleep(context.options.seconds)
    generator = context.generator("wait", item)
    return {"value": torch.rand((), generator=generator, device="cpu")}

@penchant.hookimpl
def penchant_probes():
    return [Waiting]
"""


def test_a_client_outside_of_the_cluster_is_refused(tmp_path):
    with pytest.raises(penchant.Error, match="must be a machine of the cluster"):
        penchant.run(
            {
                **EXPERIMENT,
                "probes": [{"name": "curvature-proxies"}],
                "executor": "ray:address=ray://far:1",
            },
            out=tmp_path,
        )


def test_options_of_the_executor_are_checked_before_anything_runs(tmp_path):
    raw = {**EXPERIMENT, "probes": [{"name": "curvature-proxies"}]}
    with pytest.raises(penchant.Error, match="cpus_per_worker"):
        penchant.run({**raw, "executor": {"name": "ray", "cpus_per_worker": 0.0}}, out=tmp_path)
    with pytest.raises(penchant.Error, match="ray has no option 'adress'; did you mean 'address'"):
        penchant.run({**raw, "executor": "ray:adress=auto"}, out=tmp_path)


def test_a_start_that_takes_too_long_is_told(monkeypatch):
    from penchant_ray.declarations import Ray
    from penchant_ray.executors import ray as executor

    def late(**arguments):
        raise Exception("The current node timed out during startup.")  # as Ray raises it

    monkeypatch.setattr(executor.ray, "init", late)
    told = "there is no Ray cluster on this machine: The current node timed out"
    with pytest.raises(penchant.Error, match=told):
        executor.RayWorkers(Ray(), print, 2, 1)
    with pytest.raises(penchant.Error, match="there is no Ray cluster on 10.0.0.1:6379"):
        executor.RayWorkers(Ray(address="10.0.0.1:6379"), print, 2, 1)


def test_ray_does_not_take_the_signal_that_stops_a_run(monkeypatch):
    from penchant_ray.declarations import Ray
    from penchant_ray.executors import ray as executor

    def started(**arguments):
        signal.signal(signal.SIGTERM, lambda *_: None)  # as Ray does
        state.append(True)

    state = []
    monkeypatch.setattr(executor.ray, "init", started)
    monkeypatch.setattr(executor.ray, "is_initialized", lambda: bool(state))
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        assert executor.connect(Ray())
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A plugin that is installed beside the others, for the cluster as well."""
    from penchant.plugins import discovery

    site = tmp_path / "site"
    info = site / "penchant_waiting-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "penchant_waiting.py").write_text(SLOW)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: penchant-waiting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[penchant]\nwaiting = penchant_waiting\n")
    monkeypatch.syspath_prepend(str(site))
    known = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), known]))
    discovery.load.cache_clear()
    yield
    discovery.load.cache_clear()


@contextlib.contextmanager
def two_nodes():
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        yield cluster, cluster.add_node(num_cpus=1)
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.slow
def test_a_node_that_leaves_takes_no_job_with_it(tmp_path, plugin):
    raw = {"probes": [{"name": "waiting"}], "seeds": [0, 1, 2], "figures": False, "workers": 2}
    expected = penchant.run({**raw, "executor": "serial"}, out=tmp_path / "serial")
    with two_nodes() as (cluster, node):
        left = threading.Event()

        def leave():
            # In the middle of the work, when both nodes have a job.
            while len(list(Path(tmp_path / "ray").glob("jobs/*/shards/*.npz"))) < 3:
                time.sleep(0.1)
            cluster.remove_node(node, allow_graceful=False)
            left.set()

        threading.Thread(target=leave, daemon=True).start()
        address = {"name": "ray", "address": cluster.address}
        found = penchant.run({**raw, "executor": address}, out=tmp_path / "ray")
    assert left.is_set()
    assert found.done
    for one, other in zip(expected.results(), found.results()):
        assert one.quantities["total"].value == other.quantities["total"].value
