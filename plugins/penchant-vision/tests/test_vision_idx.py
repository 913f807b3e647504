"""IDX files: every layout that is accepted, and every fault that is named."""

import gzip
import struct
import tracemalloc

import numpy as np
import penchant
import pytest
import torch
from penchant_numerics.data import as_data
from penchant_vision.datasets import fashion_mnist, kmnist, mnist
from penchant_vision.declarations import FashionMnist, Kmnist, Mnist
from penchant_vision.files.idx import read

LOAD = {Mnist: mnist.load, FashionMnist: fashion_mnist.load, Kmnist: kmnist.load}


def idx(array, magic=None):
    header = struct.pack(">I", 0x0800 | array.ndim) if magic is None else magic
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(np.uint8).tobytes()


def images(count, seed=0):
    return np.random.default_rng(seed).integers(256, size=(count, 28, 28))


def write(folder, *, compressed=True, train=40, test=20):
    folder.mkdir(parents=True)
    contents = {
        "train-images-idx3-ubyte": images(train),
        "train-labels-idx1-ubyte": np.arange(train) % 10,
        "t10k-images-idx3-ubyte": images(test, seed=1),
        "t10k-labels-idx1-ubyte": np.arange(test) % 10,
    }
    for name, array in contents.items():
        path = folder / (f"{name}.gz" if compressed else name)
        path.write_bytes(gzip.compress(idx(array)) if compressed else idx(array))
    return folder


def draw(component, root, **options):
    chosen = component.bind({"root": str(root), **options})
    return as_data(LOAD[component](chosen, torch.Generator(device="cpu").manual_seed(0)))


@pytest.mark.parametrize(
    ("component", "folder"),
    [
        (Mnist, "mnist"),
        (Mnist, "MNIST/raw"),
        (FashionMnist, "fashion-mnist"),
        (FashionMnist, "FashionMNIST/raw"),
        (Kmnist, "kmnist"),
        (Kmnist, "KMNIST/raw"),
    ],
)
@pytest.mark.parametrize("compressed", [True, False], ids=["gzip", "plain"])
def test_files_are_read_from_every_layout(tmp_path, component, folder, compressed):
    write(tmp_path / folder, compressed=compressed)
    data = draw(component, tmp_path)
    torch.testing.assert_close(data.train.inputs[:, 0], torch.from_numpy(images(40)).float() / 255)
    assert (
        data.train.labels.tolist() == [*range(10)] * 4
        and data.test.labels.tolist() == [*range(10)] * 2
    )
    assert data.shape == (1, 28, 28) and data.classes == 10


def test_environment_names_the_folder_and_root_comes_first(tmp_path, monkeypatch):
    write(tmp_path / "one" / "mnist", train=30)
    write(tmp_path / "two" / "mnist", train=50)
    monkeypatch.setenv("PENCHANT_DATA", str(tmp_path / "one"))
    assert len(mnist.load(Mnist(), torch.Generator(device="cpu").manual_seed(0)).train.labels) == 30
    assert len(draw(Mnist, tmp_path / "two").train.labels) == 50


def test_part_of_the_images_is_used_with_a_warning(tmp_path):
    write(tmp_path / "mnist")
    data = draw(Mnist, tmp_path)
    assert (
        data.conventions["training images"] == "40 of 60000"
        and data.conventions["test images"] == "20 of 10000"
    )
    assert data.warnings == (
        "the files hold 40 of 60000 training images",
        "the files hold 20 of 10000 test images",
    )


def test_missing_files_are_named_with_the_cure(tmp_path):
    folder = write(tmp_path / "mnist")
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(penchant.Error) as caught:
        draw(Mnist, tmp_path)
    text = str(caught.value)
    assert (
        str(folder / "t10k-labels-idx1-ubyte[.gz]") in text and str(tmp_path / "MNIST/raw") in text
    )
    assert str(folder / "train-images-idx3-ubyte[.gz]") not in text
    assert "PENCHANT_DATA" in text and "download = true" in text


FAULTS = {
    "magic": (
        "train-images-idx3-ubyte",
        idx(images(40), magic=b"\x00\x00\x0d\x03"),
        "found the magic number 00000d03, expected 00000803",
    ),
    "swapped": (
        "train-images-idx3-ubyte",
        idx(np.arange(40)),
        "found the magic number 00000801, expected 00000803",
    ),
    "empty": ("train-labels-idx1-ubyte", b"", "found the magic number , expected 00000801"),
    "header": (
        "train-images-idx3-ubyte",
        idx(images(40))[:10],
        "found 10 bytes, expected at least 16",
    ),
    "short": (
        "train-images-idx3-ubyte",
        idx(images(40))[:-1],
        r"found 31359 values, expected 31360, as its header says \[40, 28, 28\]",
    ),
    "long": (
        "train-labels-idx1-ubyte",
        idx(np.zeros(40)) + b"x",
        "found more than 40 values, expected 40",
    ),
    "shape": (
        "train-images-idx3-ubyte",
        idx(images(40)[:, :14, :14]),
        r"found 40 images of \[14, 14\], expected images of \[28, 28\]",
    ),
    "none": ("train-images-idx3-ubyte", idx(images(0)), "found 0 images"),
    "count": (
        "train-labels-idx1-ubyte",
        idx(np.zeros(39)),
        "found 39 labels, expected 40, one for each image",
    ),
    "label": (
        "train-labels-idx1-ubyte",
        idx(np.arange(40)),
        "found the label 39, expected labels 0 to 9",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("compressed", [True, False], ids=["gzip", "plain"])
def test_faults_are_named_with_file_found_and_expected(tmp_path, fault, compressed):
    name, content, message = FAULTS[fault]
    folder = write(tmp_path / "mnist", compressed=compressed)
    path = folder / (f"{name}.gz" if compressed else name)
    path.write_bytes(gzip.compress(content) if compressed else content)
    with pytest.raises(penchant.Error, match=message) as caught:
        draw(Mnist, tmp_path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[: len(raw) // 2],
        lambda raw: b"not gzip",
        lambda raw: raw[:200] + b"\xff" * 9 + raw[209:],
    ],
)
def test_damaged_gzip_is_named(tmp_path, damage):
    path = write(tmp_path / "mnist") / "train-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(penchant.Error, match="found a damaged file"):
        read(path, item=(28, 28))


def header(*shape):
    return struct.pack(f">I{len(shape)}I", 0x0800 | len(shape), *shape)


def refusal(path):
    """What reading a file of images answers, and the most memory it took meanwhile."""
    tracemalloc.start()
    try:
        with pytest.raises(penchant.Error) as caught:
            read(path, item=(28, 28))
        return str(caught.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_bomb_is_refused_before_it_fills_memory(tmp_path):
    """Far more zeros in a small file than its header promises."""
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(header(40, 28, 28) + bytes(100_000_000), compresslevel=1))
    message, memory = refusal(path)
    assert "found more than 31360 values, expected 31360" in message and memory < 2_000_000


@pytest.mark.parametrize("compressed", [True, False], ids=["gzip", "plain"])
def test_a_header_that_promises_too_much_allocates_nothing(tmp_path, compressed):
    path = tmp_path / ("train-images-idx3-ubyte" + ".gz" * compressed)
    pack = gzip.compress if compressed else bytes
    path.write_bytes(pack(header(999_999, 28, 28) + bytes(784)))
    message, memory = refusal(path)
    assert "found 784 values, expected 783999216" in message and memory < 5_000_000
    path.write_bytes(pack(header(2**32 - 1, 28, 28) + bytes(784)))
    assert "found 4294967295 samples in its header, expected at most" in refusal(path)[0]
