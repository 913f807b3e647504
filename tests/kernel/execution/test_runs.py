"""Runs: resumed, extended, refused, damaged, killed; and what a user is told."""

import errno
import json
import os
import signal
import time

import numpy as np
import penchant
import pytest
from penchant.results import files

EXAMPLE = {
    "architectures": [{"name": "perceptron"}],
    "datasets": [{"name": "two-blobs"}],
    "probes": [{"name": "output-spread", "networks": 70}],
    "figures": False,
}


def arrays(folder):
    (path,) = folder.glob("jobs/*/arrays.npz")
    return dict(np.load(path, allow_pickle=False))


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize("threads", [1, 2])
def test_serial_processes_and_killed_then_resumed_are_byte_identical(
    tmp_path, install, started, threads
):
    install("own")
    raw = {"probes": [{"name": "slow", "shards": 8}], "threads": threads}
    penchant.run({**raw, "executor": "serial"}, out=tmp_path / "serial")
    penchant.run({**raw, "executor": "processes", "workers": 2}, out=tmp_path / "processes")
    call = ["probe", "slow", "-o", "shards=8", "-o", "seconds=0.2", "--executor", "serial"]
    call += ["--threads", threads, "--out", tmp_path / "killed"]
    process = started(*call)
    while len(list((tmp_path / "killed").glob("jobs/*/shards/*.npz"))) < 3:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.finished(30).returncode == -signal.SIGKILL
    before = len(list((tmp_path / "killed").glob("jobs/*/shards/*.npz")))
    assert 3 <= before < 8
    assert started(*call).finished(300).returncode == 0
    same(arrays(tmp_path / "serial"), arrays(tmp_path / "processes"))
    same(arrays(tmp_path / "serial"), arrays(tmp_path / "killed"))


def test_more_seeds_extend_a_folder_and_keep_what_is_there(tmp_path):
    first = penchant.run({**EXAMPLE, "executor": "serial"}, out=tmp_path / "run")
    path = tmp_path / "run" / first.jobs[0]["path"] / "result.json"
    stamp = path.stat().st_mtime_ns
    second = penchant.run(
        {**EXAMPLE, "executor": "serial", "seeds": [0, 1, 2]}, out=tmp_path / "run"
    )
    assert [job["status"] for job in second.jobs] == ["done"] * 3
    assert path.stat().st_mtime_ns == stamp


def test_another_experiment_is_refused_unless_fresh(tmp_path):
    penchant.run({**EXAMPLE, "executor": "serial"}, out=tmp_path / "run")
    other = {**EXAMPLE, "executor": "serial", "seeds": [5]}
    with pytest.raises(
        penchant.Error, match="holds another experiment: 1 of its jobs is not in this one"
    ):
        penchant.run(other, out=tmp_path / "run")
    penchant.run(other, out=tmp_path / "run", fresh=True)
    assert len(list(tmp_path.glob("run.*"))) == 1
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("keep me")
    with pytest.raises(penchant.Error, match="is not a run folder"):
        penchant.run(other, out=tmp_path / "notes")


def test_edited_code_is_noticed_and_computed_again(tmp_path, install):
    site = install("own")
    raw = {"probes": [{"name": "slow", "shards": 2}], "executor": "serial"}
    first = penchant.run(raw, out=tmp_path / "run").results()[0]
    (site / "penchant_own-1.0.dist-info" / "direct_url.json").write_text(
        '{"dir_info": {"editable": true}, "url": "file:///x"}'
    )
    from penchant.experiments import sources

    sources._editable_hash.cache_clear()
    second = penchant.run(raw, out=tmp_path / "run").results()[0]
    source = site / "penchant_own.py"
    source.write_text(source.read_text() + "\n# edited\n")
    sources._editable_hash.cache_clear()
    third = penchant.run(raw, out=tmp_path / "run").results()[0]
    assert not first.warnings
    assert "recomputed, because code, data or package versions changed" in second.warnings
    assert "recomputed, because code, data or package versions changed" in third.warnings
    same(first.arrays, third.arrays)


def test_a_map_that_fails_leaves_no_stale_worker(tmp_path, install):
    install("own")
    probes = [
        {"name": "slow", "label": "fails", "fail_at": 0, "seconds": 0.3},
        {"name": "slow", "label": "works", "shards": 4},
    ]
    run = penchant.run(
        {"probes": probes, "executor": "processes", "workers": 3}, out=tmp_path / "run"
    )
    failed, worked = run.results(probe="fails")[0], run.results(probe="works")[0]
    assert failed.status == "failed"
    assert failed.error.startswith("ValueError: shard 0 has no luck (at penchant_own.py:")
    assert "has no luck" in failed.record["traceback"]
    alone = penchant.run(
        {"probes": [{"name": "slow", "shards": 4}], "executor": "serial"}, out=tmp_path / "alone"
    ).results()[0]
    same(worked.arrays, alone.arrays)


def test_a_worker_that_dies_is_replaced_and_its_shard_done_again(tmp_path, install):
    install("own")
    raw = {"executor": "processes", "workers": 2}
    once = {"name": "slow", "die_once": str(tmp_path / "died")}
    survived = penchant.run({**raw, "probes": [once]}, out=tmp_path / "once").results()[0]
    assert (tmp_path / "died").exists()
    assert survived.status == "done"
    killed = penchant.run(
        {**raw, "probes": [{"name": "slow", "die_at": 2}]}, out=tmp_path / "always"
    ).results()[0]
    crashed = "shard 2 crashed its worker 3 times (last: exit code 9)"
    assert killed.error == f"{crashed}. If memory ran out, use fewer workers."


def test_a_job_that_kills_its_workers_fails_and_the_others_go_on(tmp_path, install):
    install("own")
    raw = {
        "executor": "processes",
        "workers": 2,
        "seeds": [0, 1, 2],
        "probes": [{"name": "slow", "die_seed": 1}],
    }
    run = penchant.run(raw, out=tmp_path / "run")
    assert [job["status"] for job in run.jobs] == ["done", "failed", "done"]
    assert run.results(seed=1)[0].error.startswith(
        "the job crashed its worker 3 times (last: exit code 9)"
    )


def test_a_function_that_cannot_be_sent_is_refused_by_name(tmp_path):
    def local_factory(shape, outputs):
        raise AssertionError("must not be called")

    with pytest.raises(
        penchant.Error,
        match="local_factory, which other processes cannot import; put it in a module",
    ):
        penchant.measure(
            "output-spread",
            architecture=local_factory,
            dataset="two-blobs",
            executor="processes",
            workers=2,
        )


def test_a_damaged_result_is_told_and_computed_again(tmp_path):
    run = penchant.run({**EXAMPLE, "executor": "serial"}, out=tmp_path / "run")
    path = tmp_path / "run" / run.jobs[0]["path"] / "result.json"
    path.write_text(path.read_text()[:100])
    with pytest.warns(UserWarning, match="result.json is damaged"):
        penchant.read(tmp_path / "run")
    again = penchant.run({**EXAMPLE, "executor": "serial"}, out=tmp_path / "run")
    assert again.results()[0].warnings[0].startswith("recomputed: ")
    arrays_path = path.with_name("arrays.npz")
    arrays_path.write_bytes(arrays_path.read_bytes()[:50])
    third = penchant.run({**EXAMPLE, "executor": "serial"}, out=tmp_path / "run")
    assert third.results()[0].warnings == ("recomputed, because its arrays were damaged",)


def test_a_newer_schema_is_refused_and_unknown_keys_are_accepted(tmp_path):
    run = penchant.run({**EXAMPLE, "executor": "serial"}, out=tmp_path / "run")
    path = tmp_path / "run" / run.jobs[0]["path"] / "result.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "surprise": 1}))
    assert penchant.read(tmp_path / "run").results()[0].quantities["spread"].value > 0
    path.write_text(json.dumps({**record, "schema": 2}))
    with pytest.raises(penchant.Error, match="has schema 2, this version reads up to 1"):
        penchant.read(tmp_path / "run")


def test_a_full_disk_is_told_and_loses_nothing(tmp_path, monkeypatch):
    penchant.run({**EXAMPLE, "executor": "serial"}, out=tmp_path / "run")
    real = os.fsync

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(
        penchant.Error,
        match="No space left on device; free some space and run again: finished jobs are not repeated",
    ):
        penchant.run({**EXAMPLE, "executor": "serial", "seeds": [0, 1]}, out=tmp_path / "run")
    monkeypatch.setattr(files.os, "fsync", real)
    assert not list((tmp_path / "run").rglob(".*.json.*"))
    run = penchant.run({**EXAMPLE, "executor": "serial", "seeds": [0, 1]}, out=tmp_path / "run")
    assert run.done


def test_an_unwritable_folder_is_told(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(penchant.Error, match="cannot write .*file/run"):
        penchant.run({**EXAMPLE, "executor": "serial"}, out=tmp_path / "file" / "run")


def test_ctrl_c_exits_cleanly_and_keeps_finished_work(tmp_path, install, started):
    install("own")
    file = tmp_path / "two.toml"
    file.write_text(
        'executor = "serial"\n[[probes]]\nname = "slow"\nlabel = "first"\n[[probes]]\nname = "slow"\nshards = 100\nseconds = 0.2\n'
    )
    process = started("run", file, "--out", tmp_path / "run")
    while not list((tmp_path / "run").glob("jobs/slow-s0-*/shards/*.npz")):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    done = process.finished(30)
    assert done.returncode == 130
    assert "interrupted; finished work is stored; run the same command to continue" in done.stderr
    assert "Traceback" not in done.stderr
    statuses = {
        job["labels"]["probe"]: job["status"] for job in penchant.read(tmp_path / "run").jobs
    }
    assert statuses == {"first": "done", "slow": "pending"}


def test_a_folder_of_failures_gives_way_to_the_corrected_experiment(tmp_path):
    right = {**EXAMPLE, "executor": "serial"}
    # Points of the plane are no images.
    wrong = {**right, "architectures": [{"name": "lenet"}]}
    first = penchant.run(wrong, out=tmp_path / "run")
    assert [job["status"] for job in first.jobs] == ["failed"]
    second = penchant.run(right, out=tmp_path / "run")
    assert [job["status"] for job in second.jobs] == ["done"]
    assert len(list((tmp_path / "run" / "jobs").iterdir())) == 1


def test_missing_data_are_said_once_before_the_first_job(tmp_path, monkeypatch):
    monkeypatch.setenv("PENCHANT_DATA", str(tmp_path / "none"))
    experiment = {
        "probes": [{"name": "output-spread", "networks": 4}],
        "architectures": [{"name": "perceptron"}],
        "datasets": [{"name": "mnist"}, {"name": "digits"}],
        "seeds": [0, 1, 2],
        "executor": "serial",
    }
    with pytest.raises(penchant.Error, match="data are missing for 3 of 6 jobs\nmnist: ") as caught:
        penchant.run(experiment, out=tmp_path / "run")
    assert str(caught.value).count("PENCHANT_DATA") == 1
    assert not (tmp_path / "run").exists()
    found = penchant.run(experiment, out=tmp_path / "run", only=["digits"])
    assert [job["status"] for job in found.selected] == ["done"] * 3


def test_what_a_probe_prints_goes_to_stderr(tmp_path, install, capfd):
    install("loud")
    run = penchant.run({"probes": [{"name": "loud"}], "executor": "serial"}, out=tmp_path / "run")
    assert run.done
    shown = capfd.readouterr()
    assert "hello" not in shown.out
    assert shown.err.count("hello from the probe") == 1
