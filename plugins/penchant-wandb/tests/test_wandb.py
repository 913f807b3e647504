"""The real package, offline: what it stores is what the results hold."""

import json
import struct

import penchant
import pytest

EXPERIMENT = {
    "architectures": [{"name": "perceptron", "width": 4}],
    "datasets": [{"name": "two-blobs"}],
    "probes": [{"name": "output-spread", "networks": 8}],
    "executor": "serial",
    "figures": False,
}
pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # W&B's own
    pytest.mark.usefixtures("without_report"),
]


@pytest.fixture(scope="module")
def wandb_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("wandb")  # W&B keeps the first folder of a process


@pytest.fixture
def offline(wandb_folder, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DIR", str(wandb_folder))
    monkeypatch.setenv("PENCHANT_WANDB", "preferences")
    return wandb_folder


def records(path):
    """Records of a transaction log: LevelDB's format, in blocks of 32 KiB after seven bytes."""
    from wandb.proto import wandb_internal_pb2

    data, position, parts = path.read_bytes(), 7, b""
    while position + 7 <= len(data):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        size, kind = struct.unpack("<HB", data[position + 4 : position + 7])
        parts += data[position + 7 : position + 7 + size]
        position += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield wandb_internal_pb2.Record.FromString(parts)
            parts = b""


def stored(folder):
    """What W&B wrote, by the names of its runs: project, summary, exit code."""
    found = {}
    for path in folder.rglob("*.wandb"):
        name, project, numbers, code = "", "", {}, None
        for record in records(path):
            kind = record.WhichOneof("record_type")
            if kind == "summary":
                for item in record.summary.update:
                    numbers[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
            if kind == "exit":
                code = record.exit.exit_code
            if kind == "run":
                name, project = record.run.display_name, record.run.project
        found[name] = (project, numbers, code)
    return found


def test_quantities_are_stored_with_errors_and_figures(offline, tmp_path):
    run = penchant.run(EXPERIMENT, out=tmp_path / "run", progress=False)
    project, numbers, code = stored(offline)[run.jobs[0]["id"]]
    spread = run.results()[0].quantities["spread"]
    assert numbers["spread"] == spread.value
    assert numbers["spread-stderr"] == spread.stderr
    assert project == "preferences" and code == 0
    assert list(offline.rglob("media/images/*.png"))


def test_a_job_that_fails_ends_with_an_exit_code(offline, tmp_path):
    def broken(shape, outputs):
        raise ValueError("a bug of my own")

    experiment = {**EXPERIMENT, "architectures": [{"name": "import", "factory": broken}]}
    run = penchant.run(experiment, out=tmp_path / "run", progress=False)
    assert not run.done
    assert stored(offline)[run.jobs[0]["id"]][2] == 1


def test_nothing_is_written_without_a_project(wandb_folder, tmp_path, monkeypatch):
    monkeypatch.delenv("PENCHANT_WANDB", raising=False)
    before = stored(wandb_folder)
    penchant.run(EXPERIMENT, out=tmp_path / "run", progress=False)
    assert stored(wandb_folder) == before
