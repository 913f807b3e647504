"""Event files are read back: they hold what the results hold."""

import struct

import penchant
import pytest
from tensorboardX.proto.event_pb2 import Event

pytestmark = pytest.mark.usefixtures("without_report")

ASKED = {
    "architectures": [{"name": "perceptron", "width": 4}],
    "datasets": [{"name": "two-blobs"}],
    "probes": [{"name": "output-spread", "networks": 64}],
    "executor": "serial",
    "figures": False,
}


def events(folder):
    """Values of every event file in a folder: each record is a length, a checksum, data, a checksum."""
    found = []
    for path in folder.rglob("events*"):
        data = path.read_bytes()
        while data:
            (size,) = struct.unpack("<Q", data[:8])
            found.extend(Event.FromString(data[12 : 12 + size]).summary.value)
            data = data[16 + size :]
    return found


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv("PENCHANT_TENSORBOARD", str(tmp_path / "logs"))
    return tmp_path / "logs"


def test_quantities_figures_and_progress_are_written(logs, tmp_path):
    run = penchant.run(ASKED, out=tmp_path / "run", progress=False)
    (job,) = run.jobs
    values = events(logs / "run" / job["id"])
    numbers = {value.tag: value.simple_value for value in values if not value.HasField("tensor")}
    spread = run.results()[0].quantities["spread"]
    assert numbers["spread"] == pytest.approx(spread.value, rel=1e-6)
    assert numbers["spread-stderr"] == pytest.approx(spread.stderr, rel=1e-6)
    assert numbers["progress/shards"] == 1.0
    images = {value.tag: value.image for value in values if value.HasField("image")}
    assert images["means"].encoded_image_string.startswith(b"\x89PNG")
    (about,) = (value for value in values if value.tag.startswith("about"))
    assert b"output: the first" in about.tensor.string_val[0]


def test_a_job_that_fails_says_why(logs, tmp_path):
    def broken(shape, outputs):
        raise ValueError("a bug of my own")

    asked = {**ASKED, "architectures": [{"name": "import", "factory": broken}]}
    run = penchant.run(asked, out=tmp_path / "run", progress=False)
    assert not run.done
    (about,) = (value for value in events(logs) if value.tag.startswith("about"))
    assert b"a bug of my own" in about.tensor.string_val[0]


def test_nothing_is_written_where_nobody_asks(tmp_path, monkeypatch):
    monkeypatch.delenv("PENCHANT_TENSORBOARD", raising=False)
    penchant.run(ASKED, out=tmp_path / "run", progress=False)
    assert not list(tmp_path.rglob("events*"))
