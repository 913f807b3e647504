"""The files a dataset reads are known before anything is loaded: a job's key holds their content."""

import gzip
import shutil
import struct
import subprocess
import sys

import attrs
import numpy as np
import penchant
import pytest
from penchant_vision.declarations import CelebA, Cifar2, Cifar10, Digits, Mnist, StackedMnist
from penchant_vision.files.locations import IDX_NAMES

pytestmark = pytest.mark.usefixtures("without_report")


def write_idx(folder, *, compressed=False, brightness=1):
    folder.mkdir(parents=True)
    images = np.full((10, 28, 28), brightness, np.uint8)
    labels = np.arange(10, dtype=np.uint8)
    for name in IDX_NAMES:
        values = images if "images" in name else labels
        header = struct.pack(">I", 0x0800 | values.ndim)
        content = header + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()
        path = folder / (f"{name}.gz" if compressed else name)
        path.write_bytes(gzip.compress(content) if compressed else content)


@pytest.mark.parametrize("component", [Mnist, StackedMnist])
@pytest.mark.parametrize("compressed", [True, False], ids=["gzip", "plain"])
def test_idx_files_of_the_folder_that_is_read(tmp_path, component, compressed):
    write_idx(tmp_path / "MNIST/raw", compressed=compressed)
    suffix = ".gz" if compressed else ""
    expected = tuple(str(tmp_path / "MNIST/raw" / f"{name}{suffix}") for name in IDX_NAMES)
    assert component(root=str(tmp_path)).files() == expected
    # A folder that has not all of them is not read.
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / IDX_NAMES[0]).write_bytes(b"")
    assert component(root=str(tmp_path)).files() == expected


def test_the_environment_is_asked_each_time(tmp_path, monkeypatch):
    write_idx(tmp_path / "one" / "mnist")
    write_idx(tmp_path / "two" / "mnist")
    monkeypatch.setenv("PENCHANT_DATA", str(tmp_path / "one"))
    one = Mnist().files()
    monkeypatch.setenv("PENCHANT_DATA", str(tmp_path / "two"))
    assert one[0].startswith(str(tmp_path / "one"))
    assert Mnist().files()[0].startswith(str(tmp_path / "two"))


@pytest.mark.parametrize("component", [Cifar10, Cifar2])
def test_batches_that_are_there(tmp_path, component):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    names = ("data_batch_2.bin", "data_batch_5.bin", "test_batch.bin")
    for name in names:
        (folder / name).write_bytes(b"")
    expected = tuple(str(folder / name) for name in names)
    assert component(root=str(tmp_path)).files() == expected


def test_lists_stand_for_the_pictures_of_celeba(tmp_path):
    names = [path.rpartition("/")[2] for path in CelebA(root=str(tmp_path)).files()]
    assert names == ["list_attr_celeba.txt", "list_eval_partition.txt"]


def test_no_files_where_there_are_none(tmp_path):
    assert Digits().files() == ()
    assert Mnist(root=str(tmp_path)).files() == () == Cifar10(root=str(tmp_path)).files()


def test_files_are_known_without_numerics(tmp_path):
    code = (
        "import sys; from penchant_vision.declarations import Mnist, Cifar10; "
        "Mnist().files(), Cifar10().files(); "
        "print([m for m in ('torch', 'numpy', 'pooch', 'requests', 'PIL') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def mean_pixel(options, context):
    value = float(context.data.train.inputs.mean())
    return penchant.Result({"mean": penchant.Quantity(value, exact=True)})


@attrs.frozen
class MeanPixel(penchant.Probe):
    """Mean of the training pixels."""

    name = "mean-pixel"
    needs = ("dataset",)
    quantities = {"mean": "mean of the training pixels"}
    target = mean_pixel


def test_a_changed_file_is_measured_again(tmp_path):
    """A result that was kept for other files was once taken for that of these."""
    dataset = {"name": "mnist", "root": str(tmp_path)}
    values = []
    for brightness in (51, 102):
        shutil.rmtree(tmp_path / "mnist", ignore_errors=True)
        write_idx(tmp_path / "mnist", brightness=brightness)
        result = penchant.measure(MeanPixel, dataset=dataset, out=tmp_path / "run")
        values.append(result.quantities["mean"].value)
    assert values == pytest.approx([0.2, 0.4])
