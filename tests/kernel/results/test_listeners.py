"""What a listener does to the result that it is given stays with the listener."""

import penchant

MEDDLING = """
import penchant

@penchant.hookimpl
def penchant_result_stored(job, folder, result):
    meddle(result)

@penchant.hookimpl
def penchant_job_finished(run, job, result):
    meddle(result)

def meddle(result):
    result.quantities.clear()
    result.conventions["output"] = "another"
    result.record["labels"]["probe"] = "another"
    array = result.arrays.pop("means")
    array[:] = 0
"""
WATCHING = """
from pathlib import Path
import penchant

@penchant.hookimpl
def penchant_result_stored(job, folder, result):
    note(folder, "stored", result)

@penchant.hookimpl
def penchant_job_finished(run, job, result):
    note(run.folder / "jobs" / job.id, "finished", result)

def note(folder, when, result):
    numbers = result.arrays["means"].tolist(), list(result.quantities), result.conventions["output"]
    (Path(folder) / f"{when}.txt").write_text(repr((*numbers, result.record["labels"]["probe"])))
"""
EXAMPLE = {
    "architectures": [{"name": "perceptron"}],
    "datasets": [{"name": "two-blobs"}],
    "probes": [{"name": "output-spread", "networks": 4}],
    "executor": "serial",
    "figures": False,
}


def test_a_listener_changes_no_other_listeners_result(tmp_path, install, recwarn):
    # In the order of their names: the one that meddles comes first.
    install("meddling", MEDDLING, point="penchant_meddling")
    install("watching", WATCHING, point="penchant_watching")
    run = penchant.run(EXAMPLE, out=tmp_path / "run", progress=False)
    (job,) = run.jobs
    stored = run.result(job["id"])
    expected = repr((stored.arrays["means"].tolist(), ["spread"], "the first", "output-spread"))
    for when in ("stored", "finished"):
        assert (run.folder / job["path"] / f"{when}.txt").read_text() == expected
    texts = [str(warning.message) for warning in recwarn]
    assert sum("plugin meddling 1.0 failed" in text for text in texts) == 2
    assert all("read-only" in text for text in texts if "meddling" in text)
