"""Downloads, from a server on this machine: what is fetched, checked, kept and refused."""

import functools
import gzip
import hashlib
import http.server
import io
import struct
import tarfile
import threading

import numpy as np
import penchant
import pytest
import torch
from penchant_numerics.data import as_data
from penchant_vision.datasets import cifar2, cifar10, kmnist
from penchant_vision.declarations import Cifar2, Cifar10, Kmnist
from penchant_vision.files import mirrors

LOAD = {Cifar2: cifar2.load, Cifar10: cifar10.load, Kmnist: kmnist.load}


def idx_files():
    """Small files under the official names."""
    images, labels = np.zeros((10, 28, 28), np.uint8), np.arange(10, dtype=np.uint8)
    for split in ("train", "t10k"):
        yield (
            f"{split}-images-idx3-ubyte.gz",
            gzip.compress(struct.pack(">IIII", 0x0803, *images.shape) + images.tobytes()),
        )
        yield (
            f"{split}-labels-idx1-ubyte.gz",
            gzip.compress(struct.pack(">II", 0x0801, 10) + labels.tobytes()),
        )


def archive(names):
    """An archive with these batches, and a member that must not be unpacked."""
    stream = io.BytesIO()
    record = np.concatenate(
        [np.arange(10, dtype=np.uint8)[:, None], np.zeros((10, 3072), np.uint8)], axis=1
    ).tobytes()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name in (*(f"cifar-10-batches-bin/{name}" for name in names), "../escaped"):
            member = tarfile.TarInfo(name)
            member.size = len(record)
            tar.addfile(member, io.BytesIO(record))
    return stream.getvalue()


BATCHES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Serves the folder `served`, and counts what is asked for."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            super().do_GET()

        def log_message(self, *_):
            pass

    served = tmp_path / "served"
    served.mkdir()
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(served))
    ) as running:
        threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("PENCHANT_MIRROR", f"http://127.0.0.1:{running.server_port}/")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield served, asked
        running.shutdown()


def registration(served, monkeypatch, dataset, files):
    """Put files on the server and their checksums in the table."""
    (served / dataset).mkdir()
    for name, content in files.items():
        (served / dataset / name).write_bytes(content)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    monkeypatch.setitem(mirrors.MIRRORS, dataset, mirrors.MIRRORS[dataset]._replace(files=sums))


def draw(component, root, **options):
    options = component.bind({"root": str(root), "download": True, **options})
    return as_data(LOAD[component](options, torch.Generator(device="cpu").manual_seed(0)))


def test_idx_files_are_fetched_once(tmp_path, monkeypatch, server):
    served, asked = server
    registration(served, monkeypatch, "kmnist", dict(idx_files()))
    data = draw(Kmnist, tmp_path / "data")
    assert data.train.labels.tolist() == [*range(10)] and len(asked) == 4
    assert sorted(path.name for path in (tmp_path / "data/kmnist").glob("*.gz")) == sorted(
        dict(idx_files())
    )
    draw(Kmnist, tmp_path / "data")
    draw(Kmnist, tmp_path / "data", download=False)
    assert len(asked) == 4


def test_files_that_are_there_are_left_alone(tmp_path, monkeypatch, server):
    served, asked = server
    registration(served, monkeypatch, "kmnist", dict(idx_files()))
    own = tmp_path / "data/kmnist/train-labels-idx1-ubyte"
    own.parent.mkdir(parents=True)
    own.write_bytes(struct.pack(">II", 0x0801, 10) + bytes([7] * 10))
    assert draw(Kmnist, tmp_path / "data").train.labels.tolist() == [7] * 10
    assert len(asked) == 3


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(tmp_path, monkeypatch, server):
    served, _ = server
    registration(served, monkeypatch, "kmnist", dict(idx_files()))
    (served / "kmnist/train-images-idx3-ubyte.gz").write_bytes(b"something else")
    with pytest.raises(
        penchant.Error, match=r"kmnist/train-images-idx3-ubyte.gz is not the file that was expected"
    ):
        draw(Kmnist, tmp_path / "data")
    assert not (tmp_path / "data/kmnist/train-images-idx3-ubyte.gz").exists()


def test_a_file_the_mirror_has_not_is_named(tmp_path, server):
    with pytest.raises(
        penchant.Error,
        match=r"http://127.0.0.1:\d+/kmnist/train-images-idx3-ubyte.gz cannot be fetched into .*404",
    ):
        draw(Kmnist, tmp_path / "data")


def test_a_server_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PENCHANT_MIRROR", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(
        penchant.Error, match="http://127.0.0.1:9/cifar10/cifar-10-binary.tar.gz cannot be fetched"
    ):
        draw(Cifar10, tmp_path / "data")


def test_a_folder_that_cannot_be_written_is_named(tmp_path, server):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(penchant.Error, match="cannot be written"):
        draw(Cifar10, tmp_path / "file")


@pytest.mark.parametrize("component", [Cifar10, Cifar2])
def test_archives_are_fetched_once_and_only_their_batches_kept(
    tmp_path, monkeypatch, server, component
):
    served, asked = server
    registration(served, monkeypatch, "cifar10", {"cifar-10-binary.tar.gz": archive(BATCHES)})
    data = draw(component, tmp_path / "data")
    assert len(data.train.labels) == 50 and data.conventions["training batches"] == "5 of 5"
    kept = {path.name for path in (tmp_path / "data/cifar-10-batches-bin").iterdir()} - {
        ".download.lock"
    }
    assert kept == set(BATCHES) and not list(tmp_path.rglob("escaped"))
    draw(component, tmp_path / "data")
    assert asked == ["/cifar10/cifar-10-binary.tar.gz"]


def test_an_archive_without_a_batch_is_refused(tmp_path, monkeypatch, server):
    served, _ = server
    registration(served, monkeypatch, "cifar10", {"cifar-10-binary.tar.gz": archive(BATCHES[:-1])})
    with pytest.raises(penchant.Error, match="found no file cifar-10-batches-bin/test_batch.bin"):
        draw(Cifar10, tmp_path / "data")


def test_processes_that_start_together_fetch_once(tmp_path, monkeypatch, server):
    served, asked = server
    registration(served, monkeypatch, "cifar10", {"cifar-10-binary.tar.gz": archive(BATCHES)})
    folder = tmp_path / "data/cifar-10-batches-bin"
    threads = [
        threading.Thread(target=mirrors.fetch_archive, args=("cifar10", folder, BATCHES))
        for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(asked) == 1 and all((folder / name).exists() for name in BATCHES)


def test_without_another_mirror_the_official_address_is_asked(monkeypatch, tmp_path):
    pooch = pytest.importorskip("pooch")
    asked = []
    monkeypatch.delenv("PENCHANT_MIRROR", raising=False)
    monkeypatch.setattr(
        pooch,
        "retrieve",
        lambda address, known_hash, **_: asked.append((address, known_hash)) or tmp_path / "x",
    )
    mirrors.fetch("mnist", tmp_path)
    assert asked[0][0] == "https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz"
    assert asked[0][1] == "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"


def test_every_file_has_a_checksum():
    for mirror in mirrors.MIRRORS.values():
        assert mirror.address.endswith("/") and all(
            len(bytes.fromhex(each)) == 32 for each in mirror.files.values()
        )
