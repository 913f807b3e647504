"""Maps whose shards several workers do: order, failures, deaths, and what cannot be published."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import penchant
import pytest
from penchant.execution import maps
from penchant.execution.context import Context
from penchant.execution.mapping import Map
from penchant.execution.shards import Scope, Shard, ShardStore
from penchant.execution.tasks import Queue
from penchant.experiments.experiment import build
from penchant.plugins import discovery

MAPS = """
import os, pathlib, subprocess, time
import attrs
import numpy as np
import penchant

@attrs.frozen
class Maps(penchant.Probe):
    \"\"\"Maps in the way it is told.\"\"\"
    name = "maps"
    target = "penchant_maps:run"
    accepts = ("architecture",)
    uses = ("perceptron",)
    quantities = {"count": "of numbers"}
    arrays = {"numbers": "in the order of shards"}
    presets = {"quick": {}}
    way: str = penchant.option("once", "how")
    path: str = penchant.option("", "a file")

def run(options, context):
    numbers = WAYS[options.way](options, context)
    values = np.array(numbers, dtype=float)
    return penchant.Result({"count": penchant.Quantity(len(numbers), exact=True)}, {"numbers": values})

def of(answers):
    return [answer["number"] for answer in answers]

def once(options, context):
    return of(context.map(number, [[1, {"a": 2.5}], "text", None, float("inf")]))

def two_at_once(options, context):
    first = context.map(number, [10, 11, 12, 13])
    second = context.scope("other").map(number, [10, 11, 12, 13])
    pairs = [(next(first)["number"], next(second)["number"]) for _ in range(4)]
    left = context.map(number, [20, 21, 22])
    begun = next(left)["number"]
    between = of(context.map(number, [30, 31, 32]))
    return [*sum(pairs, ()), begun, *between, *of(left)]

def abandoned(options, context):
    left = context.map(number, list(range(8)))
    first = next(left)["number"]
    left.close()
    return [first, *of(context.map(number, [40, 41]))]

def narrower(options, context):
    scope = context.scope("key", 3, architecture="perceptron:width=5", shape=[4], outputs=2, first=7)
    shared = {"weights": np.arange(6.0), "flags": np.array([True, False])}
    return of(scope.map(parameters, networks=range(2, 9), shard_size=2, shared=shared))

def local(options, context):
    def here(context, item):
        return {"number": float(item)}
    return of(context.map(here, [1, 2, 3]))

def leaves(options, context):
    return of(context.map(leave, [0, 1, 2]))

def exits(options, context):
    return of(context.map(exit_shard, [0, 1, 2]))

def child(options, context):
    return of(context.map(die_with_a_child, [0, 1, 2]))

def number(context, item):
    import torch
    time.sleep(0.02)
    return {"number": torch.rand((), generator=context.generator(repr(item)), device="cpu").item()}

def parameters(context, item):
    network = context.network(item[0])
    total = sum(float(each.detach().abs().sum()) for each in network.parameters())
    return {"number": total + float(context.shared["weights"].sum()) + int(context.shared["flags"][0])}

def leave(context, item):
    raise GeneratorExit("gone")

def exit_shard(context, item):
    raise SystemExit(3)

def die_with_a_child(context, item):
    path = pathlib.Path(context.options.path)
    if item == 1 and not path.exists():
        child = subprocess.Popen(["sleep", "600"], close_fds=False)
        path.write_text(str(child.pid))
        os._exit(9)
    return {"number": float(item)}

WAYS = {
    "once": once,
    "two-at-once": two_at_once,
    "abandoned": abandoned,
    "narrower": narrower,
    "local": local,
    "leaves": leaves,
    "exits": exits,
    "child": child,
}

@penchant.hookimpl
def penchant_probes():
    return [Maps]
"""
SAME = ("once", "two-at-once", "abandoned", "narrower")


def ran(folder, ways, **settings):
    probes = [{"name": "maps", "label": way, "way": way} for way in ways]
    raw = {"probes": probes, "figures": False, "workers": 2, **settings}
    return penchant.run(raw, out=folder)


def numbers(run):
    found = {}
    for result in run.results():
        assert result.status == "done", result.error
        found[result.record["labels"]["probe"]] = result.arrays["numbers"].tobytes()
    return found


def test_maps_give_the_same_bytes_here_in_workers_and_shared(tmp_path, install):
    install("maps", MAPS)
    expected = numbers(ran(tmp_path / "serial", SAME, executor="serial"))
    # Several jobs run in workers, which share what they map.
    assert numbers(ran(tmp_path / "several", SAME, executor="processes")) == expected
    # The shards of a single job are all done by workers.
    for way in SAME:
        run = ran(tmp_path / way, [way], executor="processes")
        assert numbers(run) == {way: expected[way]}
        assert not list(run.folder.glob("jobs/*/shards"))


def test_what_a_shard_raises_elsewhere_is_told(tmp_path, install):
    install("maps", MAPS)
    (result,) = ran(tmp_path / "one", ["leaves"], executor="processes").results()
    assert result.error.startswith("GeneratorExit: gone (at ")
    assert "in leave" in result.record["traceback"]
    left, exits = ran(tmp_path / "two", ["leaves", "exits"], executor="processes").results()
    assert left.error.startswith("GeneratorExit: gone (at ")
    assert exits.error.startswith("SystemExit: 3")


def test_a_function_that_others_cannot_import_is_mapped_alone_or_refused(tmp_path, install):
    install("maps", MAPS)
    ran(tmp_path / "serial", ["local"], executor="serial")
    (result,) = ran(tmp_path / "one", ["local"], executor="processes").results()
    assert "needs a function that other processes can import" in result.error


def test_a_death_is_noticed_while_a_child_lives_on(tmp_path, install):
    install("maps", MAPS)
    path = tmp_path / "child"
    raw = {"probes": [{"name": "maps", "way": "child", "path": str(path)}], "figures": False}
    run = penchant.run({**raw, "executor": "processes", "workers": 2}, out=tmp_path / "run")
    os.kill(int(path.read_text()), signal.SIGKILL)
    assert run.results()[0].arrays["numbers"].tolist() == [0.0, 1.0, 2.0]


def double(context, item):
    return {"number": 2.0 * item}


@pytest.fixture
def setup(tmp_path):
    """A queue, and a map of a job."""
    raw = {
        "architectures": [{"name": "perceptron"}],
        "datasets": [{"name": "two-blobs"}],
        "probes": [{"name": "output-spread", "networks": 4}],
    }
    (job,) = build(raw, discovery.load(), "test").jobs("cpu")
    queue = Queue(tmp_path)
    queue.make()
    return queue, Map(
        Context(job, tmp_path), {}, ShardStore(tmp_path / "jobs" / job.id / "shards", job.key)
    )


def shards(*items, **scope):
    return [Shard(number, double, item, Scope(**scope)) for number, item in enumerate(items)]


def opened(queue, setup):
    (name,) = queue.maps()
    job = setup.context._job
    return maps.opened(queue, name, {job.id: job})


def take(published, worker):
    return published.take(worker, attempts=3)


def test_a_published_map_comes_back_as_it_was(setup):
    queue, setup = setup
    perceptron = discovery.load().find("architecture", "perceptron").component(width=9)
    sent = shards(range(3, 9, 2), [1, None], {"a": 0.1}, keys=("a", 2), architecture=perceptron)
    assert maps.publish(queue, setup, sent) is not None
    got = opened(queue, setup)
    found = {shard.number: shard for shard, claim in iter(lambda: take(got, "w"), None)}
    for shard in sent:
        assert found[shard.number].item == shard.item
        assert found[shard.number].identity("k", "") == shard.identity("k", "")
    # Nothing that could run code when it is read.
    assert not [path for path in Path(queue.path).rglob("*") if path.suffix in (".pkl", ".pt")]


def test_what_json_cannot_hold_is_not_published(setup):
    queue, setup = setup
    assert maps.publish(queue, setup, shards(1, 2, keys=(("a", 1),))) is None
    assert maps.publish(queue, setup, shards(1, 2, keys=(object(),))) is None
    local = [Shard(number, lambda context, item: {}, 1, Scope()) for number in range(2)]
    assert maps.publish(queue, setup, local) is None
    assert queue.maps() == []


def test_a_shard_is_taken_by_one_worker_and_free_when_it_lets_go(setup):
    queue, setup = setup
    maps.publish(queue, setup, shards(1))
    first, second = opened(queue, setup), opened(queue, setup)
    shard, claim = take(first, "one")
    assert shard.item == 1 and take(second, "two") is None
    claim.release()
    assert take(second, "two") is not None


def test_a_shard_is_not_done_again_where_its_answer_is_seen_too_late(setup):
    """As on a network file system: neither the answer nor the state of the shard is visible yet."""
    queue, setup = setup
    published = maps.publish(queue, setup, shards(1))
    shard, claim = take(published, "one")
    published.finish(claim)
    claim.release()
    (published.path / "states").write_bytes(maps.WAITING)
    assert not published.store.has(shard)
    assert take(opened(queue, setup), "two") is None


def test_looking_for_a_shard_reads_one_file_however_many_are_done(setup, monkeypatch):
    queue, setup = setup
    published = maps.publish(queue, setup, shards(*range(300)))
    for _ in range(299):
        shard, claim = take(published, "one")
        published.finish(claim)
        claim.release()
    asked = []
    has = type(published.store).has
    monkeypatch.setattr(
        type(published.store), "has", lambda store, shard: asked.append(shard) or has(store, shard)
    )
    assert take(opened(queue, setup), "two")[0].number == 299
    assert len(asked) == 1


def test_a_shard_that_crashes_its_workers_fails_with_the_reason(setup):
    queue, setup = setup
    published = maps.publish(queue, setup, shards(1))
    for number in range(3):
        _, claim = take(opened(queue, setup), f"worker-{number}")
        claim.release()  # as the system does when a worker dies
    queue.note_death("worker-2", "signal SIGSEGV")
    assert take(opened(queue, setup), "worker-3") is None
    crashed = "shard 0 crashed its worker 3 times .last: signal SIGSEGV.. If memory ran out"
    with pytest.raises(penchant.Error, match=crashed):
        published.check()


def test_attempts_that_were_withdrawn_or_finished_do_not_count(tmp_path):
    queue = Queue(tmp_path)
    queue.make()
    for _ in range(2):
        with queue.claim("task", "worker") as claim:
            assert claim.attempts == []
            claim.begin()
            claim.withdraw()
    for count in range(3):
        with queue.claim("task", "worker") as claim:
            assert len(claim.attempts) == count
            claim.begin()
    with queue.claim("task", "worker") as claim:
        claim.begin()
        claim.forgive()
    with queue.claim("task", "worker") as claim:
        assert len(claim.attempts) == 1
        claim.begin()
        claim.finish()
    with queue.claim("task", "worker") as claim:
        assert claim.attempts == []
    assert queue.claim("other", "worker") is not None


ORDERS = """
import os, sys
from penchant.execution import maps
child = os.fork()
order = list(range(50))
maps.order.shuffle(order)
os.write(1, (repr(order) + "\\n").encode())
if child:
    os.waitpid(child, 0)
os._exit(0)
"""


def test_workers_forked_from_one_server_do_not_take_shards_in_one_order():
    done = subprocess.run(
        [sys.executable, "-c", ORDERS], capture_output=True, text=True, timeout=300
    )
    first, second = done.stdout.splitlines()
    assert first != second
