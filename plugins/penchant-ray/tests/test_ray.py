"""The executor on Ray: what every executor does, and what only a cluster can."""

import os
import pickle
import signal
import socket
from pathlib import Path

import penchant
import penchant_testing as testing
import pytest
import ray
from penchant_ray.declarations import Ray
from penchant_ray.executors import ray as engine
from penchant_ray.executors import tasks

pytestmark = pytest.mark.usefixtures("without_report")

test_conforms = testing.conformance("penchant-ray", small={"ray": {}})


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """One cluster on this machine for all tests, because its start takes seconds."""
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


EXPERIMENT = {
    "architectures": [{"name": "import", "factory": testing.TINY, "label": "tiny"}],
    "datasets": [{"name": "import", "factory": testing.SAMPLES, "label": "classes"}],
    "seeds": [0, 1],
    "figures": False,
    "workers": 2,
}


def test_a_client_outside_of_the_cluster_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(engine.ray, "is_initialized", lambda: False)
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
    def late(**arguments):
        raise Exception("The current node timed out during startup.")  # as Ray raises it

    monkeypatch.setattr(engine.ray, "init", late)
    monkeypatch.setattr(engine.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(engine.ray, "shutdown", lambda: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    told = "there is no Ray cluster on this machine: The current node timed out"
    with pytest.raises(penchant.Error, match=told):
        engine.connect(Ray())
    # As KubeRay sets it.
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    with pytest.raises(penchant.Error, match="there is no Ray cluster on 10.0.0.1:6379"):
        engine.connect(Ray())


def test_ray_does_not_take_the_signal_that_stops_a_run(monkeypatch):
    def started(**arguments):
        signal.signal(signal.SIGTERM, lambda *_: None)  # as Ray does
        state.append(True)

    state = []
    monkeypatch.setattr(engine.ray, "init", started)
    monkeypatch.setattr(engine.ray, "is_initialized", lambda: bool(state))
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        assert engine.connect(Ray())
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_modules_that_cannot_be_sent_are_named(monkeypatch):
    def refuse(**arguments):
        raise ray.exceptions.RuntimeEnvSetupError("Package size exceeds the maximum size")

    monkeypatch.setattr(engine.ray, "init", refuse)
    monkeypatch.setattr(engine.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(engine.ray, "shutdown", lambda: None)
    told = r"(?s)modules of your own \(nets\) cannot be sent: .*exceeds the maximum"
    with pytest.raises(penchant.Error, match=told):
        engine.connect(Ray(), code=[Path("nets.py")])


def test_a_cluster_that_stays_without_room_ends_the_run(monkeypatch, caplog):
    monkeypatch.setattr(engine.ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 1.0}}])
    monkeypatch.setattr(engine.ray, "available_resources", dict)
    waiting = engine.RayEngine(Ray(cpus_per_worker=2.0, gpus_per_worker=1.0), None, None, 1)
    waiting._update_room()
    assert "waiting for a node: none of its 1 nodes has 2 CPU and 1 GPU" in caplog.text
    monkeypatch.setattr(engine, "SECONDS_TO_GROW", -1.0)
    waiting._updated = 0.0
    with pytest.raises(penchant.Error, match="the cluster has no room for a job: none of its 1"):
        waiting._update_room()


def test_jobs_share_the_room_that_they_leave():
    shared = engine.RayEngine(Ray(), None, None, 1)
    shared._slots, shared._free, shared._running = 16, 10, {"a": None, "b": None}
    assert shared._room("a", 0) == 7
    # What others use is not there.
    shared._free = 2
    assert shared._room("a", 1) == 3
    shared._slots = 2
    assert shared._room("a", 1) == 0


def test_samples_are_sent_once_and_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr(engine, "MOST_SAMPLES", 2)
    monkeypatch.setattr(engine.tasks, "put", lambda value: (len(value), object()))
    command = engine.RayEngine(Ray(), None, None, 1)
    calls = []

    class Server:
        def answer(self, name, seed):
            calls.append(seed)
            return bytes(200_000)

    def ask(seed):
        return command._answer(Server(), "samples", pickle.dumps((seed,)), None)

    assert ask(0) is ask(0)
    assert calls == [0]
    ask(1), ask(2)
    ask(0)
    assert calls == [0, 1, 2, 0]
    assert len(command._samples) == 2


def test_a_node_without_a_package_says_so(monkeypatch):
    setup = tasks.Setup(None, "", {}, {}, 1)
    packed = b"cpenchant_gone\nProbe\n."  # as pickle names a class
    told = f"{socket.gethostname()} cannot import what a job needs: No module named 'penchant_gone'"
    assert tasks.refusable(packed, setup, print).startswith(told)


def test_a_full_object_store_is_named_with_what_to_do(monkeypatch):
    def full(value):
        raise ray.exceptions.ObjectStoreFullError("1 object of 8 bytes")

    monkeypatch.setattr(tasks.ray, "put", full)
    told = rf"the object store of {socket.gethostname()} and the disk behind it are full; start"
    with pytest.raises(penchant.Error, match=told):
        tasks.put([1])


def test_data_are_where_the_node_says(monkeypatch):
    for name in ("PENCHANT_DATA", "PENCHANT_MIRROR"):
        monkeypatch.setenv(name, "here")
    setup = tasks.Setup(None, "", {"PENCHANT_DATA": "there", "PENCHANT_MIRROR": "there"}, {}, 1)
    tasks.refusable(pickle.dumps(None), setup, str)
    assert (os.environ["PENCHANT_DATA"], os.environ["PENCHANT_MIRROR"]) == ("here", "there")


def test_a_node_keeps_networks_and_drops_what_dead_processes_left(monkeypatch, tmp_path):
    monkeypatch.setattr(tasks.tempfile, "gettempdir", lambda: str(tmp_path))
    root = tmp_path / f"penchant-ray-{os.getuid()}"
    dead = root / "old" / "999999999" / "jobs"
    dead.mkdir(parents=True)
    with tasks.process_folder("new") as folder:
        (folder / "jobs").mkdir()
        (folder / "networks" / "kept").mkdir()
    assert sorted(path.name for path in root.iterdir()) == ["new"]
    assert (root / "new" / "networks" / "kept").is_dir()
    assert not (folder / "jobs").exists()
