"""Parts of a run: jobs that are named."""

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
    with pytest.raises(penchant.Error, match="no job matches 'wied'; did you mean 'wide'"):
        penchant.run(EXAMPLE, out=tmp_path / "run", only=["wied"])
    assert penchant.run(EXAMPLE, out=tmp_path / "run").done
