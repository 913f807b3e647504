"""Maps whose shards several workers do: order, failures, deaths, and what cannot be published."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import penchant
import pytest
from penchant.execution.job.context import Context
from penchant.execution.job.mapping import Map
from penchant.execution.queue.tasks import RAISED, Queue
from penchant.execution.workers.maps import Maps
from penchant.experiments.experiment import build
from penchant.plugins import discovery

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
    install("maps")
    expected = numbers(ran(tmp_path / "serial", SAME, executor="serial"))
    # Several jobs run in workers, which share what they map.
    assert numbers(ran(tmp_path / "several", SAME, executor="processes")) == expected
    # The shards of a single job are all done by workers.
    for way in SAME:
        run = ran(tmp_path / way, [way], executor="processes")
        assert numbers(run) == {way: expected[way]}
        assert not list(run.folder.glob("jobs/*/shards"))


def test_what_a_shard_raises_elsewhere_is_told(tmp_path, install):
    install("maps")
    (result,) = ran(tmp_path / "one", ["leaves"], executor="processes").results()
    assert result.error.startswith("GeneratorExit: gone (at ")
    assert "in leave" in result.record["traceback"]
    left, exits = ran(tmp_path / "two", ["leaves", "exits"], executor="processes").results()
    assert left.error.startswith("GeneratorExit: gone (at ")
    assert exits.error.startswith("SystemExit: 3")


def test_a_function_that_others_cannot_import_is_mapped_alone(tmp_path, install):
    install("maps")
    expected = numbers(ran(tmp_path / "serial", ["local"], executor="serial"))
    assert numbers(ran(tmp_path / "one", ["local"], executor="processes")) == expected


def test_a_death_is_noticed_while_a_child_lives_on(tmp_path, install):
    install("maps")
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
    return queue, Context(job, tmp_path)


FREE = range(3)  # states of shards that other workers take
OWN = (RAISED, 3, *FREE)


def published(queue, context, *items, function=double, keys=(), architecture=None):
    """Publish a map; None where that cannot be done."""
    whole = Map(context.scope(*keys, architecture=architecture), function, items)
    return Maps(queue, {}).publish(whole, range(len(items)))


def opened(queue, context):
    """The map that is published, as another worker sees it."""
    job = context.runtime.job
    (found,) = Maps(queue, {job.id: job}).published()
    return found


def test_a_published_map_comes_back_as_it_was(setup):
    queue, context = setup
    perceptron = discovery.load().find("architecture", "perceptron").component(width=9)
    items = [range(3, 9, 2), [1, None], {"a": 0.1}]
    sent = published(queue, context, *items, keys=("a", 2), architecture=perceptron).map
    got = opened(queue, context)
    taken = [claim.number for claim in iter(lambda: got.take(FREE), None)]
    assert sorted(taken) == [0, 1, 2]
    assert got.map.items == items
    assert [got.map.path(shard) for shard in taken] == [sent.path(shard) for shard in taken]
    # Nothing that could run code when it is read.
    assert not [path for path in Path(queue.path).rglob("*") if path.suffix in (".pkl", ".pt")]


def test_what_json_cannot_hold_is_not_published(setup):
    queue, context = setup
    assert published(queue, context, 1, 2, keys=(("a", 1),)) is None
    assert published(queue, context, 1, 2, keys=(object(),)) is None
    assert published(queue, context, 1, 2, function=lambda context, item: {}) is None
    assert queue.names("maps") == []


def test_a_shard_is_taken_by_one_worker_and_free_when_it_lets_go(setup):
    queue, context = setup
    published(queue, context, 1)
    first, second = opened(queue, context), opened(queue, context)
    claim = first.take(FREE)
    assert claim.number == 0 and second.take(FREE) is None
    claim.release()
    assert second.take(FREE) is not None


def test_a_shard_is_not_done_again_where_its_answer_is_seen_too_late(setup, monkeypatch):
    """As on a network file system: neither the answer nor the state of the shard is visible yet."""
    queue, context = setup
    own = published(queue, context, 1)
    with own.take(OWN) as claim:
        claim.finish()
    assert not own.map.has(0)
    late = opened(queue, context)
    monkeypatch.setattr(Path, "read_bytes", lambda path: b"\0")
    assert [*late._candidates(b"\0", FREE)][0] == 0
    assert late.take(FREE) is None


def test_looking_for_a_shard_reads_one_file_however_many_are_done(setup, monkeypatch):
    queue, context = setup
    own = published(queue, context, *range(300))
    for _ in range(299):
        with own.take(OWN) as claim:
            claim.finish()
    asked = []
    has = Map.has
    monkeypatch.setattr(Map, "has", lambda whole, shard: asked.append(shard) or has(whole, shard))
    assert opened(queue, context).take(FREE).number == 299
    assert len(asked) == 1


def test_a_shard_that_crashes_its_workers_is_left_to_its_job_with_the_reason(setup):
    queue, context = setup
    own = published(queue, context, 1)
    for number in range(3):
        claim = opened(queue, context).take(FREE)
        queue.begin(claim, f"worker-{number}")
        claim.release()  # as the system does when a worker dies
        queue.note_death(f"worker-{number}", "signal SIGSEGV" if number == 2 else "exit code 1")
    assert opened(queue, context).take(FREE) is None
    with own.take(OWN) as claim:
        assert claim.attempts == 3
        assert queue.death(claim) == "signal SIGSEGV"


def test_a_shard_that_has_raised_is_left_to_its_job(setup):
    queue, context = setup
    own = published(queue, context, 1, 2)
    with opened(queue, context).take(FREE) as claim:
        raised = claim.number
        claim.finish(RAISED)
    assert opened(queue, context).take(FREE).number == 1 - raised
    claim = own.take(OWN)
    assert claim.number == raised and claim.attempts == 0


def test_attempts_that_were_withdrawn_or_finished_do_not_count(tmp_path):
    queue = Queue(tmp_path)
    queue.make()
    for _ in range(2):
        with queue.claim("task") as claim:
            assert claim.attempts == 0
            claim.begin()
            claim.withdraw()
    for count in range(3):
        with queue.claim("task") as claim:
            assert claim.attempts == count
            claim.begin()
    with queue.claim("task") as claim:
        claim.begin()
        claim.forgive()
    with queue.claim("task") as claim:
        assert claim.attempts == 1
        claim.begin()
        claim.finish()
    with queue.claim("task") as claim:
        assert claim.attempts == 0
    assert queue.claim("other") is not None


ORDERS = """
import os, sys
from penchant.execution.workers import maps
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
