"""Nothing is lost: figures, damaged files, lost records, locks, good results, memory."""

import contextlib
import json
import os
import shutil
import time
import tracemalloc
import warnings
from pathlib import Path

import attrs
import numpy as np
import penchant
import pytest
import torch
from click.testing import CliRunner
from penchant.cli import main
from penchant.execution.job import checkpoints
from penchant.execution.queue.folders import still_to_do
from penchant.results.files import read_arrays, write_arrays
from penchant.results.runs import Run

EXAMPLE = {
    "architectures": [{"name": "perceptron"}],
    "datasets": [{"name": "two-blobs"}],
    "probes": [{"name": "output-spread", "networks": 40}],
    "executor": "serial",
    "figures": False,
}
DRAWN = {**EXAMPLE, "figures": True}


def place_of(run, number=0):
    return run.folder / "jobs" / run.jobs[number]["id"]


@pytest.mark.usefixtures("with_report")
@pytest.mark.parametrize("how", ["run", "report"])
def test_figures_that_are_missing_are_drawn_again(tmp_path, how, command):
    run = penchant.run(DRAWN, out=tmp_path / "run")
    pictures = sorted(path.name for path in (place_of(run) / "figures").iterdir())
    shutil.rmtree(place_of(run) / "figures")
    if how == "run":
        penchant.run(DRAWN, out=tmp_path / "run")
    else:
        done = command("report", tmp_path / "run")
        assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (place_of(run) / "figures").iterdir()) == pictures
    assert "data:image/svg+xml" in (tmp_path / "run" / "report.html").read_text()


def test_a_half_drawn_job_is_drawn_again(tmp_path):
    run = penchant.run(DRAWN, out=tmp_path / "run")
    (place_of(run) / "figures" / "figures.json").unlink()
    (place_of(run) / "figures" / "means.svg").unlink()
    penchant.run(DRAWN, out=tmp_path / "run")
    assert (place_of(run) / "figures" / "means.svg").is_file()


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 255
    path.write_bytes(bytes(data))


def test_a_flipped_byte_of_an_array_is_noticed_and_computed_again(tmp_path):
    run = penchant.run(EXAMPLE, out=tmp_path / "run")
    before = run.results()[0].arrays["means"]
    path = place_of(run) / "arrays.npz"
    for at in (60, len(path.read_bytes()) // 2):
        flip(path, at)
        with pytest.raises(penchant.Error, match="arrays.npz"):
            penchant.read(tmp_path / "run").results()
        again = penchant.run(EXAMPLE, out=tmp_path / "run").results()[0]
        assert again.warnings == ("recomputed, because its arrays were damaged",)
        assert np.array_equal(again.arrays["means"], before)
    assert path.with_name("arrays.npz.damaged").is_file()


def test_one_damaged_result_blocks_no_reader(tmp_path):
    run = penchant.run({**EXAMPLE, "seeds": [0, 1]}, out=tmp_path / "run")
    for text in ("", "{", '{"schema": 1}', "[" * 100_000):
        (place_of(run) / "result.json").write_text(text)
        with pytest.warns(UserWarning, match="is damaged"):
            read = penchant.read(tmp_path / "run")
        assert [job["status"] for job in read.jobs] == ["pending", "done"]
        assert len(read.results()) == len(read.table()) == 1
        with pytest.warns(UserWarning, match="is damaged"):
            done = CliRunner().invoke(main, ["report", str(tmp_path / "run")])
        assert done.exit_code == 0


@pytest.mark.parametrize("text", [None, "", '{"schema": 1}', '{"schema": 1, "jobs": [{}]}'])
def test_a_lost_or_damaged_record_of_the_run_is_rebuilt(tmp_path, text):
    run = penchant.run({**EXAMPLE, "seeds": [0, 1]}, out=tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    path.unlink()
    if text is not None:
        path.write_text(text)
    read = penchant.read(tmp_path / "run")
    assert {job["id"] for job in read.jobs} == {job["id"] for job in run.jobs}
    assert read.done and len(read.results(seed=1)) == 1
    again = penchant.run({**EXAMPLE, "seeds": [0, 1]}, out=tmp_path / "run")
    assert again.done and not any(result.warnings for result in again.results())


def test_a_record_cannot_lead_out_of_the_folder(tmp_path):
    run = penchant.run(EXAMPLE, out=tmp_path / "run")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    record["jobs"][0]["id"] = "../../elsewhere"
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    assert [job["id"] for job in penchant.read(tmp_path / "run").jobs] == [run.jobs[0]["id"]]


def test_temporary_files_of_a_kill_are_no_strangers(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".run.json.abcd1234").write_text("{")
    (tmp_path / "run" / ".experiment.toml.abcd1234").write_text("")
    assert penchant.run(EXAMPLE, out=tmp_path / "run").done


def test_figures_and_tables_are_on_the_disk_before_what_says_so(tmp_path, monkeypatch):
    synced, real = [], os.fsync

    def fsync(descriptor):
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    place = place_of(penchant.run(DRAWN, out=tmp_path / "run"))
    # Temporary names: .means.svg.0123abcd
    names = [name[1:-9] for name in synced if name.startswith(".")]
    drawn = [path.name for part in ("figures", "tables") for path in (place / part).iterdir()]
    drawn.remove("figures.json")
    assert len(drawn) > 1 and set(drawn) <= set(names[: names.index("figures.json")])


@pytest.mark.usefixtures("with_report")
def test_what_a_kill_left_behind_is_swept_away(tmp_path):
    run = penchant.run(DRAWN, out=tmp_path / "run")
    place = place_of(run)
    expected = sorted(path.relative_to(run.folder) for path in run.folder.rglob("*"))
    # Killed while it wrote its record, its arrays, a shard; while it drew; before shards went.
    (place / "shards").mkdir()
    (place / "figures" / "figures.json").unlink()
    left = ("shards/0.npz", "shards/.1.npz.0123abcd", "figures/.means.svg.0123abcd")
    for name in (*left, ".arrays.npz.0123abcd", "tables/.means.csv.0123abcd"):
        (place / name).write_bytes(b"half")
    (run.folder / ".run.json.0123abcd").write_bytes(b"half")
    penchant.run(DRAWN, out=tmp_path / "run")
    assert sorted(path.relative_to(run.folder) for path in run.folder.rglob("*")) == expected


def test_a_half_written_checkpoint_is_swept_away(tmp_path):
    import penchant_testing as testing

    data = testing.dataset({"name": "import", "factory": testing.SAMPLES})
    training = penchant.Training(steps=2, batch=30)
    kept = checkpoints.Checkpoints(tmp_path, data, training, seed=0, tell=lambda *_: None)
    for name in (".written.0123abcd", "written"):
        (tmp_path / name).write_bytes(b"half")
    assert [step for step, _ in kept.states(make, None)] == [2]
    names = {path.name.partition("-")[0] for path in tmp_path.iterdir()}
    assert names == {"lock", "step"}


def test_fresh_does_not_move_what_is_not_a_run(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("years of work")
    with pytest.raises(penchant.Error, match="is not a run folder"):
        penchant.run(EXAMPLE, out=tmp_path / "precious", fresh=True)
    assert (tmp_path / "precious" / "thesis.tex").is_file()


def test_a_job_computed_again_that_fails_leaves_the_good_result(tmp_path, install):
    import sys

    install("failing")
    raw = {"probes": [{"name": "failing"}], "executor": "serial"}
    run = penchant.run(raw, out=tmp_path / "run")
    path = place_of(run) / "result.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "key": "of older code"}))
    sys.modules["penchant_failing"].FAILS = True
    failed = penchant.run(raw, out=tmp_path / "run")
    assert not failed.done
    assert "not today" in penchant.read(tmp_path / "run").results()[0].error
    assert json.loads(path.read_text())["quantities"]["found"]["value"] == 7.0
    sys.modules["penchant_failing"].FAILS = False
    mended = penchant.run(raw, out=tmp_path / "run")
    assert mended.done and not (place_of(run) / "failure.json").exists()


def test_a_resume_holds_one_shard_at_a_time_and_does_damaged_ones_again(tmp_path, install):
    import sys

    install("large")
    raw = {"probes": [{"name": "large"}], "executor": "serial"}
    run = penchant.run(raw, out=tmp_path / "run")
    module = sys.modules["penchant_large"]
    assert len(module.COMPUTED) == 30
    shards = place_of(run) / "shards"
    sizes = [path.stat().st_size for path in shards.glob("*.npz")]
    assert max(sizes) < 2_100_000  # the numbers, and not much else
    (seventh,) = shards.glob("7-*.npz")
    flip(seventh, 1_000_000)
    module.FAILS = False
    module.COMPUTED.clear()
    tracemalloc.start()
    done = penchant.run(raw, out=tmp_path / "run")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert done.done and module.COMPUTED == [7]
    assert done.results()[0].quantities["total"].value == 250_000 * sum(range(30))
    assert peak < 20_000_000  # all shards together are 60 MB


def test_every_flipped_bit_of_a_shard_is_noticed_or_harmless(tmp_path, monkeypatch):
    """A sample of all single-bit flips: never another number, never another exception."""
    import penchant_testing as testing
    from penchant.execution.job.mapping import Map, pack

    shards = Map(testing.context("output-spread", tmp_path), flip, [3])
    values = {"values": np.arange(4.0), "text": "a"}
    notes = {"warnings": [], "conventions": {}}
    shards.write(0, pack(values, flip, notes))
    path = shards.path(0)
    whole = path.read_bytes()
    expected = shards.stored(0)["values"].tolist()
    # A shard that is damaged is computed again.
    monkeypatch.setattr(Map, "compute", lambda whole, shard: None)
    for at in range(0, len(whole), 3):
        for bit in (0, 5, 7):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            path.write_bytes(bytes(damaged))
            found = shards.stored(0)
            assert found is None or found["values"].tolist() == expected
    path.write_bytes(whole)


def make(shape=(4,), outputs=3):
    return torch.nn.Linear(4, 3)


@pytest.mark.parametrize("damage", ["bit", "cut", "empty"])
def test_a_damaged_checkpoint_is_set_aside_and_trained_again(tmp_path, damage):
    import penchant_testing as testing

    data = testing.dataset({"name": "import", "factory": testing.SAMPLES})
    training = penchant.Training(steps=6, batch=30)

    def states():
        torch.manual_seed(0)
        first = make()
        kept = checkpoints.Checkpoints(tmp_path, data, training, seed=0, tell=lambda *_: None)

        def again():
            network = make()
            network.load_state_dict(first.state_dict())
            return network

        return [(step, network.weight.tolist()) for step, network in kept.states(again, [2, 6])]

    with torch.random.fork_rng(devices=[]):
        before = states()
        (path,) = tmp_path.glob("step-6-*.pt")
        if damage == "bit":
            flip(path, path.stat().st_size // 3)
        else:
            path.write_bytes(path.read_bytes()[:100] if damage == "cut" else b"")
        (tmp_path / "step-x.pt").write_text("junk")
        assert states() == before
    assert list(tmp_path.glob("*.damaged"))


def test_looking_along_a_training_reads_no_earlier_checkpoint_twice(tmp_path, monkeypatch):
    import penchant_testing as testing

    data = testing.dataset({"name": "import", "factory": testing.SAMPLES})
    training = penchant.Training(steps=12, batch=30)
    kept = checkpoints.Checkpoints(tmp_path, data, training, seed=0, tell=lambda *_: None)
    read = []
    real = checkpoints.read_tensors
    monkeypatch.setattr(checkpoints, "read_tensors", lambda path: read.append(path) or real(path))
    assert len(list(kept.states(make, range(1, 13)))) == 12
    assert len(read) <= 24  # the one to go on from, and the one it becomes


@pytest.mark.usefixtures("with_report")
def test_random_damages_are_told_in_one_way(tmp_path):
    from penchant_report.report import write_report

    run = penchant.run({**DRAWN, "seeds": [0, 1]}, out=tmp_path / "run")
    whole = {name: (place_of(run) / name).read_bytes() for name in ("result.json", "arrays.npz")}
    expected = run.results(seed=0)[0]
    random = np.random.default_rng(0)
    for number in range(40):
        name = list(whole)[number % 2]
        damaged = bytearray(whole[name])
        at = int(random.integers(len(damaged)))
        if number % 4 < 2:
            damaged[at] = int(random.integers(256))
        else:
            del damaged[at : at + int(random.integers(1, 200))]
        (place_of(run) / name).write_bytes(bytes(damaged))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(penchant.Error):
                for found in penchant.read(run.folder).results(seed=0):
                    if name == "arrays.npz":
                        assert np.array_equal(found.arrays["means"], expected.arrays["means"])
            # A page takes much longer than reading: one in five has every kind of damage, too.
            if number % 5 == 0:
                with contextlib.suppress(penchant.Error):
                    write_report(penchant.read(run.folder))
        (place_of(run) / name).write_bytes(whole[name])


def test_marking_jobs_is_linear(tmp_path):
    def seconds(count):
        entries = [{"id": f"job-{n}", "status": "pending", "labels": {}} for n in range(count)]
        run = Run(tmp_path, {"jobs": entries})
        run.write = lambda: None
        run._written = time.monotonic() + 1e6
        started = time.perf_counter()
        for entry in entries:
            run.mark(entry["id"], "done")
        return time.perf_counter() - started

    assert seconds(40_000) < 0.5  # three minutes where it is quadratic


def test_weights_are_hashed_once_a_run(tmp_path, monkeypatch):
    from penchant.experiments import checksums
    from penchant.experiments.experiment import build
    from penchant.plugins import discovery

    hashed = []
    monkeypatch.setattr(checksums, "checksum", lambda path: hashed.append(path) or "0" * 64)
    torch.save(make().state_dict(), tmp_path / "net.pt")
    architecture = {"name": "perceptron", "weights": str(tmp_path / "net.pt")}
    raw = {
        "architectures": [architecture],
        "datasets": [{"name": "two-blobs"}],
        "probes": [{"name": "hessian-spectrum"}],
        "seeds": list(range(20)),
    }
    assert len(build(raw, discovery.load(), "test").jobs("cpu")) == 20
    assert len(hashed) == 1


def test_checksums_of_large_files_are_kept_between_sessions(tmp_path, monkeypatch):
    from penchant.experiments import checksums

    hashed = []
    real = checksums.checksum
    monkeypatch.setattr(checksums, "checksum", lambda path: hashed.append(path) or real(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "data.bin"

    def hash_in_a_new_session(seconds_ago, byte):
        path.write_bytes(bytes([byte]) * 1_000_001)
        stamp = time.time() - seconds_ago
        os.utime(path, (stamp, stamp))
        first = checksums.file_hash(path)
        assert checksums.file_hash(path) == first
        return first

    # Read once, and again only when its time says that it has changed.
    before = hash_in_a_new_session(1000, 1)
    assert len(hashed) == 1
    assert hash_in_a_new_session(500, 2) != before
    assert len(hashed) == 2
    # A file of just now may change within the tick of its clock: it is read every time.
    hash_in_a_new_session(0, 3)
    assert len(hashed) == 4
    # A damaged cache is no cache.
    last = hash_in_a_new_session(100, 4)
    assert len(hashed) == 5
    for entry in checksums.cache_folder().iterdir():
        entry.write_text("{")
    assert checksums.file_hash(path) == last == real(path)[:32]
    assert len(hashed) == 6
    assert checksums.file_hash(tmp_path / "nothing") == "none"


def test_arrays_are_written_without_a_second_copy(tmp_path):
    values = np.zeros(4_000_000)  # 32 MB
    tracemalloc.start()
    write_arrays(tmp_path / "large.npz", {"values": values})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000
    assert np.array_equal(read_arrays(tmp_path / "large.npz")["values"], values)


def test_a_result_names_the_checksum_of_its_arrays(tmp_path):
    run = penchant.run(EXAMPLE, out=tmp_path / "run")
    record = json.loads((place_of(run) / "result.json").read_text())
    assert len(record["arrays_sha256"]) == 64
    other = {"means": np.zeros(40)}
    write_arrays(place_of(run) / "arrays.npz", other)
    with pytest.raises(penchant.Error, match="its checksum is not the result's"):
        penchant.read(tmp_path / "run").results()


def test_a_number_that_changed_on_disk_is_noticed_and_computed_again(tmp_path):
    run = penchant.run(EXAMPLE, out=tmp_path / "run")
    path = place_of(run) / "result.json"
    record = json.loads(path.read_text())
    before = record["quantities"]["spread"]["value"]
    record["quantities"]["spread"]["value"] = before * 2
    path.write_text(json.dumps(record))
    with pytest.warns(UserWarning, match="its numbers are not those that were written"):
        assert penchant.read(tmp_path / "run").table() == []
    again = penchant.run(EXAMPLE, out=tmp_path / "run").results()[0]
    assert again.quantities["spread"].value == before
    assert "its numbers are not those that were written" in again.warnings[0]


def test_a_table_reads_no_arrays(tmp_path):
    run = penchant.run(EXAMPLE, out=tmp_path / "run")
    (place_of(run) / "arrays.npz").unlink()
    assert penchant.read(tmp_path / "run").table()[0]["quantity"] == "spread"


def test_jobs_still_to_do_are_found_once(tmp_path):
    run = penchant.run(EXAMPLE, out=tmp_path / "run")
    assert run.done
    from penchant.experiments.experiment import build
    from penchant.plugins import discovery

    jobs = build(EXAMPLE, discovery.load(), "test").jobs("cpu")
    waiting, notes = still_to_do(tmp_path / "run", jobs)
    assert (waiting, notes) == ([], {})
    changed = [attrs.evolve(job, key="another") for job in jobs]
    waiting, notes = still_to_do(tmp_path / "run", changed)
    assert len(waiting) == 1 and "versions changed" in notes[jobs[0].id]
