"""`penchant.execution.workers.engines`: jobs in private folders, and the command's side of them."""

import json
import os
import tempfile
import time
from pathlib import Path

import attrs
import numpy as np
import penchant
import pytest
from penchant.execution.queue.folders import joined
from penchant.execution.runner import run_experiment
from penchant.execution.workers.engines import Server
from penchant.experiments.experiment import build
from penchant.experiments.sources import check_versions
from penchant.plugins import discovery
from penchant_testing.executors import WorkerCheck

LEARNING = {
    "architectures": [{"name": "perceptron"}],
    "datasets": [{"name": "two-blobs"}],
    "training": {"steps": 12, "batch": 16},
    "figures": False,
    "store_networks": True,
}


@attrs.frozen
class Twice(penchant.Probe):
    """The norm of a trained network, and one number from each of some shards."""

    name = "twice"
    target = "test_engines:run_twice"
    needs = ("architecture", "dataset", "training")
    quantities = {"norm": "of all parameters"}
    arrays = {"numbers": "one per shard"}
    presets = {"quick": {}}


def run_twice(options, context):
    [(_, network)] = context.trained()
    norm = sum(float(each.detach().norm()) for each in network.parameters())
    numbers = [each["number"] for each in context.map(one_number, [0, 1, 2, 3])]
    return penchant.Result({"norm": penchant.Quantity(norm, exact=True)}, {"numbers": numbers})


def one_number(context, item):
    if os.environ.get("FAILING_SHARD") == str(item):
        raise ValueError("this shard fails")
    [(_, network)] = context.trained()
    number = next(network.parameters()).detach().double().sum() + item
    return {"number": float(number)}


@attrs.frozen
class Inline(penchant.Executor):
    """An engine that does one job after another, each in a folder of its own."""

    name = "inline"
    target = "test_engines:InlineEngine"
    engine = True


class InlineEngine:
    """Does jobs here; notes what they ask of the command."""

    calls: list = []
    outcomes: dict = {}

    def __init__(self, options, work, workers, threads):
        self.calls.clear()

    def run(self, orders, server):
        def call(name, *arguments):
            self.calls.append(name)
            return server.answer(name, *arguments)

        self._call = call
        for order in orders:
            with tempfile.TemporaryDirectory() as folder:
                how = self.outcomes.get(order.job.probe.label)
                yield order.id, how or order.run(call, self, Path(folder))

    def map(self, whole, shards):
        # As on another machine: through what is sent there.
        with tempfile.TemporaryDirectory() as folder:
            opened = whole.sent().open(whole.shared, self._call, Path(folder))
            for shard in shards:
                [arrays] = opened.answers([shard])
                if arrays is None:
                    yield whole.run(shard)
                self._call("store", whole.job, [whole.path(shard).name], [arrays])
                yield arrays

    def stop(self):
        pass


@pytest.fixture
def run(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "test_engines", sys.modules[__name__])
    plugins = discovery.load().with_component(Inline, penchant.Executor)
    plugins = plugins.with_component(Twice, penchant.Probe)
    plugins = plugins.with_component(WorkerCheck, penchant.Probe)

    def call(executor, *probes, folder="run", **raw):
        raw = {**LEARNING, "probes": list(probes), "executor": executor, **raw}
        experiment = build(raw, plugins, "test")
        return run_experiment(experiment, plugins, tmp_path / folder)

    return call


def contents(run):
    """Every file of jobs and networks, without what a job cost."""
    found = {}
    for path in [*run.folder.glob("jobs/**/*"), *run.folder.glob("networks/*/*.pt")]:
        if path.is_file():
            content = path.read_bytes()
            if path.name == "result.json":
                record = {**json.loads(content), "cost": None}
                content = json.dumps(record).encode()
            found[str(path.relative_to(run.folder))] = content
    return found


def test_an_engine_leaves_the_bytes_of_serial(run):
    probes = ({"name": "twice"}, {"name": "twice", "label": "again"})
    expected = run("serial", *probes, folder="serial", seeds=[0, 1])
    found = run("inline", *probes, seeds=[0, 1])
    assert found.done
    assert contents(found) == contents(expected)
    assert not (found.folder / "queue").exists()


def test_a_network_is_trained_once_for_all_jobs(run):
    run("inline", {"name": "twice"}, {"name": "twice", "label": "again"})
    assert InlineEngine.calls.count("save") == 1


def test_a_run_resumes_at_the_last_shard(run, monkeypatch):
    monkeypatch.setenv("FAILING_SHARD", "2")
    failed = run("inline", {"name": "twice"})
    assert not failed.done
    (job,) = failed.jobs
    assert "ValueError: this shard fails" in job["error"]
    shards = sorted((failed.folder / job["path"] / "shards").iterdir())
    assert [path.name.partition("-")[0] for path in shards] == ["0", "1"]
    # What is stored is read, not computed.
    monkeypatch.delenv("FAILING_SHARD")
    done = run("inline", {"name": "twice"})
    assert InlineEngine.calls.count("read") == 2 and InlineEngine.calls.count("store") == 2
    assert contents(done) == contents(run("serial", {"name": "twice"}, folder="serial"))


def test_a_job_that_an_engine_gives_up_fails_with_its_reason(run, monkeypatch):
    monkeypatch.setattr(InlineEngine, "outcomes", {"lost": "the node has left"})
    found = run("inline", {"name": "twice", "label": "lost"}, {"name": "twice"})
    errors = {job["labels"]["probe"]: job.get("error", "") for job in found.jobs}
    expected = "the job crashed its worker 1 times (last: the node has left)"
    assert errors["lost"].startswith(expected)
    assert errors["twice"] == ""


def test_a_failure_stands_beside_an_older_good_result(run, monkeypatch):
    good = run("inline", {"name": "twice"})
    (job,) = good.jobs
    result = good.folder / job["path"] / "result.json"
    # As if it were of other code.
    record = json.loads(result.read_text())
    result.write_text(json.dumps({**record, "key": "older"}))
    monkeypatch.setattr(InlineEngine, "outcomes", {"twice": "the node has left"})
    run("inline", {"name": "twice"})
    assert json.loads(result.read_text())["status"] == "done"
    assert json.loads(result.with_name("failure.json").read_text())["status"] == "failed"


def test_an_engine_works_alone_in_a_folder(run, tmp_path):
    experiment = build(
        {**LEARNING, "probes": [{"name": "output-spread"}]}, discovery.load(), "test"
    )
    jobs = experiment.jobs("cpu", {})
    folder, refused = tmp_path / "run", "process .* the executor ray works alone"
    for first, second in (("ray", ""), ("", "ray")):
        with joined(folder, jobs, first), pytest.raises(penchant.Error, match=refused):
            joined(folder, jobs, second).__enter__()


def test_other_versions_are_refused_by_package_and_host(monkeypatch):
    import socket

    expected = {"numpy": "1.0"}
    where = rf"numpy is {np.__version__} on {socket.gethostname()}, expected 1.0"
    with pytest.raises(penchant.Error, match=where):
        check_versions(expected, [])


@pytest.fixture
def server(tmp_path):
    experiment = build(
        {**LEARNING, "probes": [{"name": "output-spread"}], "time_limit": 0.001},
        discovery.load(),
        "test",
    )
    jobs = experiment.jobs("cpu", {})
    return Server(tmp_path, jobs, 3, lambda message: None), jobs[0].id


def test_a_job_that_is_begun_too_often_is_refused(server, monkeypatch):
    server, job = server
    for _ in range(3):
        assert server.answer("begin", job) == ([], "")
    assert "crashed its worker 3 times" in server.answer("begin", job)[1]
    # Unless it gets further.
    server.answer("store", job, ["0-a.npz"], [{"x": np.ones(2)}])
    assert server.answer("begin", job) == (["0-a.npz"], "")
    assert server.may_retry(job) and not server.may_retry(job)


def test_a_job_that_had_to_be_killed_at_its_time_limit_is_not_begun_again(server, monkeypatch):
    server, job = server
    assert server.answer("begin", job)[1] == ""
    monkeypatch.setattr("penchant.execution.workers.engines.GRACE", -1.0)
    assert "time_limit of 0.001 seconds, and could not" in server.answer("begin", job)[1]


def test_a_training_belongs_to_one_job_until_it_is_released(server):
    server, job = server
    assert server.answer("lease", "net", job, []) == {}
    assert server.answer("lease", "net", "other", []) is None
    # A second attempt of the same job has the same name.
    server.answer("save", "net", "latest-5-abc.pt", b"five")
    assert server.answer("lease", "net", job, []) == {"latest-5-abc.pt": b"five"}
    server.answer("save", "net", "step-9-abc.pt", b"nine")
    server.answer("release", "net", job)
    assert server.answer("lease", "net", "other", []) == {"step-9-abc.pt": b"nine"}
    assert server.answer("lease", "net", "other", ["step-9-abc.pt"]) == {}


def test_an_attempt_gives_up_the_trainings_of_the_one_before(server):
    server, job = server
    assert server.answer("lease", "net", f"{job} 3", []) == {}
    assert server.answer("lease", "net", f"{job} 4", []) is None
    # The process died with its shards, whose numbers may be others now.
    server.answer("begin", job)
    assert server.answer("lease", "net", f"{job} 4", []) == {}


def test_a_training_that_saves_nothing_for_long_may_be_done_by_others(server, monkeypatch):
    server, job = server
    monkeypatch.setattr("penchant.execution.workers.engines.SECONDS_TO_SAVE", 0.2)
    assert server.answer("lease", "net", f"{job} 3", []) == {}
    time.sleep(0.15)
    server.answer("save", "net", "latest-5-abc.pt", b"five")
    time.sleep(0.1)
    assert server.answer("lease", "net", "other", []) is None
    time.sleep(0.15)
    assert server.answer("lease", "net", "other", []) == {"latest-5-abc.pt": b"five"}


def test_a_shard_that_comes_after_its_job_is_dropped(run, tmp_path):
    done = run("inline", {"name": "output-spread"})
    (job,) = build(
        {**LEARNING, "probes": [{"name": "output-spread"}], "executor": "serial"},
        discovery.load(),
        "test",
    ).jobs("cpu", {})
    server = Server(done.folder, [job], 3, lambda message: None)
    result = (done.folder / "jobs" / job.id / "result.json").read_bytes()
    server.finish(job.id, {"result.json": result})
    server.answer("store", job.id, ["0-a.npz"], [{"x": np.ones(2)}])
    server.close()
    assert not (done.folder / "jobs" / job.id / "shards").exists()


def test_the_code_that_is_sent_is_what_can_be_imported_there(tmp_path, monkeypatch):
    # A module beside the one that is named, which a function imports when it is called.
    own = tmp_path / "own"
    (own / "package").mkdir(parents=True)
    (own / "single_net.py").write_text("import package.deep\n\n\ndef make(shape, outputs): ...\n")
    (own / "beside.py").write_text("")
    (own / "package" / "__init__.py").write_text("")
    (own / "package" / "deep.py").write_text("")
    monkeypatch.syspath_prepend(str(own))
    experiment = build(
        {
            "architectures": [{"name": "import", "factory": "single_net:make"}],
            "datasets": [{"name": "two-blobs"}],
            "probes": [{"name": "output-spread"}],
        },
        discovery.load(),
        "test",
    )
    server = Server(tmp_path, experiment.jobs("cpu", {}), 3, lambda message: None)
    copied = server.copy_code(tmp_path / "copy")
    assert [path.name for path in copied] == ["beside.py", "package", "single_net.py"]
    deep = tmp_path / "copy" / "package" / "deep.py"
    assert deep.is_file() and (deep.parent / "__init__.py").is_file()
    # Installed packages are not.
    assert Server(tmp_path, [], 3, print).copy_code(tmp_path / "none") == []


def test_only_calls_of_links_are_answered(server):
    with pytest.raises(penchant.Error, match="a link calls one of .*, found '_flush'"):
        server[0].answer("_flush")
