"""`penchant push`, `pull` and `archive`: finished runs in object stores and zip files."""

import functools
import http.server
import json
import shutil
import subprocess
import threading
import zipfile

import fsspec
import penchant
import penchant_testing as testing
import pytest
from penchant_tools import copies
from penchant_tools.archive import archive

EXPERIMENT = {
    "title": "To be copied",
    "architectures": [{"name": "import", "factory": testing.TINY, "label": "tiny"}],
    "datasets": [{"name": "import", "factory": testing.SAMPLES, "label": "classes"}],
    "training": {"steps": 2},
    "store_networks": True,
    "executor": "serial",
    "figures": False,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two jobs, one of which is not done."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    raw = {**EXPERIMENT, "seeds": [0, 1]}
    raw["probes"] = [{"name": "curvature-proxies", "per_class": 3, "grid_points": 16}]
    found = penchant.run({**raw, "figures": False}, out=folder)
    assert found.done
    (folder / "jobs" / found.jobs[1]["id"] / "result.json").unlink()
    return folder


@pytest.fixture
def url():
    yield "memory://bucket/run"
    fsspec.filesystem("memory").rm("/bucket", recursive=True)


def numbers(folder):
    return [result.quantities for result in penchant.read(folder).results()]


def test_a_run_comes_back_as_it_was(run, url, tmp_path):
    sent, count = copies.push(run, url)
    assert sent == count > 3
    received, _ = copies.pull(url, tmp_path / "back")
    assert received == count
    for path in (tmp_path / "back").rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (run / path.relative_to(tmp_path / "back")).read_bytes()
    assert len(list((tmp_path / "back").glob("jobs/*"))) == 1, "only the job that is done"
    assert len(list((tmp_path / "back").glob("networks/*/*.pt"))) >= 1


def test_what_is_there_is_not_sent_again(run, url, tmp_path):
    sent, count = copies.push(run, url)
    assert copies.push(run, url) == (0, count)
    copies.pull(url, tmp_path)
    assert copies.pull(url, tmp_path) == (0, count)
    # A file that has gone there, though it is listed.
    store = fsspec.filesystem("memory")
    (lost,) = store.glob("/bucket/run/jobs/*/arrays.npz")
    store.rm(lost)
    assert copies.push(run, url) == (1, count)


def test_a_push_that_is_stopped_goes_on(run, url, monkeypatch):
    store = type(fsspec.filesystem("memory"))
    put, calls = store.put_file, []

    def stopped(self, *arguments, **more):
        calls.append(arguments)
        if len(calls) == 4:
            raise OSError("the network has gone")
        return put(self, *arguments, **more)

    monkeypatch.setattr(store, "put_file", stopped)
    with pytest.raises(OSError, match="the network has gone"):
        copies.push(run, url)
    sent, count = copies.push(run, url)
    assert 0 < sent < count


def test_damage_is_noticed(run, url, tmp_path):
    copies.push(run, url)
    store = fsspec.filesystem("memory")
    (path,) = store.glob("/bucket/run/jobs/*/arrays.npz")
    store.pipe_file(path, b"x" * store.info(path)["size"])
    with pytest.raises(penchant.Error, match=r"arrays.npz is damaged: its checksum is another"):
        copies.pull(url, tmp_path)
    assert not list(tmp_path.glob("jobs/*/*arrays.npz*"))
    # Numbers of another run are never replaced.
    (result,) = run.glob("jobs/*/result.json")
    mine = tmp_path / result.relative_to(run)
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("{}")
    copies.push(run, url)
    store.put_file(str(run / "jobs" / result.parent.name / "arrays.npz"), path)
    with pytest.raises(penchant.Error, match=r"result.json differs from memory:.*another folder"):
        copies.pull(url, tmp_path)


OUTSIDE = ["../../evil", "/etc/evil", "jobs\\..\\evil", "jobs/../evil", "evil.py", "evil/x.py", ""]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_copy_cannot_write_outside_of_its_folder(url, tmp_path, name):
    store = fsspec.filesystem("memory")
    store.pipe_file("/bucket/run/checksums.json", json.dumps({name: "0"}).encode())
    with pytest.raises(penchant.Error, match="names a file outside of the run"):
        copies.pull(url, tmp_path)


@pytest.mark.parametrize("text", ["[1]", "{", "[" * 10**5, "3"])
def test_checksums_that_are_none_are_one_sentence(url, tmp_path, text):
    fsspec.filesystem("memory").pipe_file("/bucket/run/checksums.json", text.encode())
    with pytest.raises(penchant.Error, match=r"checksums.json of /bucket/run"):
        copies.pull(url, tmp_path)


@pytest.mark.parametrize("name", ["report.html", "arrays.npz", "figures/x.svg"])
def test_a_link_that_leads_out_is_neither_published_nor_followed(run, url, tmp_path, name):
    secret = tmp_path / "outside" / "secret"
    secret.parent.mkdir()
    secret.write_text("secret")
    linked = tmp_path / "run"
    shutil.copytree(run, linked)
    (job,) = linked.glob("jobs/*/result.json")
    path = (linked if name == "report.html" else job.parent) / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(secret)
    for publish in (lambda: copies.push(linked, url), lambda: archive(linked, tmp_path / "a.zip")):
        with pytest.raises(penchant.Error, match="leads out of"):
            publish()
    assert not (tmp_path / "a.zip").exists()
    # What is pulled does not go through a link either.
    fsspec.filesystem("memory").makedirs("/bucket", exist_ok=True)
    copies.push(run, url)
    back = tmp_path / "back"
    back.mkdir()
    (back / "jobs").symlink_to(secret.parent)
    with pytest.raises(penchant.Error, match="leads out of"):
        copies.pull(url, back)
    assert [each.name for each in secret.parent.iterdir()] == ["secret"]


def test_what_is_no_address_or_no_run_is_refused(run, tmp_path):
    with pytest.raises(penchant.Error, match="expected an address such as s3://bucket/run, found"):
        copies.push(run, "bucket/run")
    with pytest.raises(penchant.Error, match="memory://nothing has no checksums.json"):
        copies.pull("memory://nothing", tmp_path)
    with pytest.raises(penchant.Error, match="gone://bucket: Protocol not known: gone"):
        copies.push(run, "gone://bucket")


def test_a_run_is_pulled_from_a_server(run, tmp_path):
    pytest.importorskip("aiohttp")
    copies.push(run, f"file://{tmp_path}/served")
    handler = functools.partial(Quiet, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        received, count = copies.pull(f"http://127.0.0.1:{server.server_port}", tmp_path / "back")
        server.shutdown()
    assert received == count
    assert numbers(tmp_path / "back")[0] == numbers(tmp_path / "served")[0]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Says nothing of what it serves."""

    def log_message(self, *arguments):
        pass


def test_an_archive_checks_and_describes_itself(run, tmp_path):
    path = tmp_path / "run.zip"
    count = archive(run, path)
    with zipfile.ZipFile(path) as opened:
        assert opened.testzip() is None
        opened.extractall(tmp_path / "out")
    call = ["sha256sum", "--check", "--strict", "--quiet", "manifest-sha256.txt"]
    subprocess.run(call, cwd=tmp_path / "out", check=True)
    graph = json.loads((tmp_path / "out" / "ro-crate-metadata.json").read_text())["@graph"]
    entities = {each["@id"]: each for each in graph}
    about = entities[entities["ro-crate-metadata.json"]["about"]["@id"]]
    assert (about["@type"], about["name"]) == ("Dataset", "To be copied")
    assert about["description"].startswith("1 of 2 jobs")
    parts = [each["@id"] for each in about["hasPart"]]
    assert len(parts) == count
    for part in parts:
        size = (tmp_path / "out" / part).stat().st_size
        assert (entities[part]["@type"], entities[part]["contentSize"]) == ("File", str(size))
    assert numbers(tmp_path / "out") == numbers(run)
    with pytest.raises(penchant.Error, match="exists; remove it or choose another name"):
        archive(run, path)
