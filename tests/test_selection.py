"""Parts of a run: jobs that are named, and arrays of a cluster on one folder."""

import json

import filelock
import penchant
import pytest

EXAMPLE = {
    "architectures": [{"name": "perceptron"}, {"name": "perceptron", "label": "wide", "width": 40}],
    "datasets": [{"name": "two-blobs"}],
    "probes": [{"name": "output-spread", "networks": 4}],
    "seeds": [0, 1, 2],
    "executor": "serial",
    "figures": False,
}


def statuses(run):
    return [job["status"] for job in run.jobs]


def test_only_named_jobs_run_and_the_others_are_pending(tmp_path):
    run = penchant.run(EXAMPLE, out=tmp_path / "run", only=["wide"])
    assert run.done and statuses(run).count("done") == 3
    assert all(result.record["labels"]["architecture"] == "wide" for result in run.results())
    one = penchant.run(EXAMPLE, out=tmp_path / "run", only=["output-spread-perceptron-*-s1-*"])
    assert one.done and statuses(one).count("done") == 4
    with pytest.raises(penchant.Error, match="no job is like 'wied'; did you mean 'wide'"):
        penchant.run(EXAMPLE, out=tmp_path / "run", only=["wied"])
    assert penchant.run(EXAMPLE, out=tmp_path / "run").done


def test_parts_fill_one_folder_and_give_what_a_whole_run_gives(tmp_path):
    whole = penchant.run(EXAMPLE, out=tmp_path / "whole")
    for part in ("3/3", "1/3", "2/3"):
        run = penchant.run(EXAMPLE, out=tmp_path / "parts", jobs=part)
        assert run.done
    assert statuses(run) == ["done"] * 6
    record = json.loads((tmp_path / "parts" / "run.json").read_text())
    assert [job["status"] for job in record["jobs"]] == ["done"] * 6
    for one, other in zip(whole.results(), penchant.read(tmp_path / "parts").results()):
        assert one.arrays["means"].tobytes() == other.arrays["means"].tobytes()


@pytest.mark.parametrize("text", ["0/3", "4/3", "a/b", "3", "1/0", "-1/2"])
def test_a_part_that_is_none_is_refused(tmp_path, text):
    with pytest.raises(penchant.Error, match="expected part K/N of the jobs"):
        penchant.run(EXAMPLE, out=tmp_path / "run", jobs=text)


def test_parts_work_side_by_side_and_a_whole_run_keeps_away(tmp_path, impatient):
    penchant.run(EXAMPLE, out=tmp_path / "run", jobs="1/2")
    busy = "another run is writing to"
    with filelock.FileLock(tmp_path / "run" / ".lock-1-of-2"):
        assert penchant.run(EXAMPLE, out=tmp_path / "run", jobs="2/2").done
        for jobs in ("1/2", "2/3", None):
            with pytest.raises(penchant.Error, match=busy):
                penchant.run(EXAMPLE, out=tmp_path / "run", jobs=jobs)
    with (
        filelock.FileLock(tmp_path / "run" / ".lock"),
        pytest.raises(penchant.Error, match=busy),
    ):
        penchant.run(EXAMPLE, out=tmp_path / "run", jobs="1/2")
    with pytest.raises(penchant.Error, match="never moves the folder aside"):
        penchant.run(EXAMPLE, out=tmp_path / "run", jobs="1/2", fresh=True)
