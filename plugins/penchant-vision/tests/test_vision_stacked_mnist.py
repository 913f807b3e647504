"""Stacked MNIST: three digits of MNIST's files as channels, and the modes they make."""

import struct

import numpy as np
import penchant
import pytest
import torch
from penchant_numerics.data import as_data
from penchant_vision.datasets.stacked_mnist import load, stack
from penchant_vision.declarations import StackedMnist
from penchant_vision.preparation import Pixels

# Made with the code that read these files before it moved here, seed 0.
TRAIN_MODES = [424, 340, 736, 181, 207]
TEST_MODES = [244, 165, 727, 726, 978]
GRAY = 20  # of digit 1; digit d is d times as bright


def generator(seed=0):
    return torch.Generator(device="cpu").manual_seed(seed)


def write(root):
    """Twenty images of each split whose brightness tells their digit."""
    folder = root / "mnist"
    folder.mkdir()
    digits = (np.arange(20) % 10).astype(np.uint8)
    images = np.broadcast_to(digits[:, None, None] * GRAY, (20, 28, 28)).astype(np.uint8)
    for split in ("train", "t10k"):
        for kind, values in (("images-idx3", images), ("labels-idx1", digits)):
            header = struct.pack(">I", 0x0800 | values.ndim)
            lengths = struct.pack(f">{values.ndim}I", *values.shape)
            (folder / f"{split}-{kind}-ubyte").write_bytes(header + lengths + values.tobytes())
    return folder


def draw(root, **options):
    return as_data(load(StackedMnist.bind({"root": str(root), **options}), generator()))


def test_modes_are_the_digits_of_the_channels(tmp_path):
    write(tmp_path)
    data = draw(tmp_path, train=30, test=10)
    assert data.train.inputs.shape == (30, 3, 28, 28) and data.classes == 1000
    assert data.test.inputs.shape == (10, 3, 28, 28)
    seen = (data.train.inputs[:, :, 0, 0] * 255 / GRAY).round().long()
    assert torch.equal(data.train.labels, seen[:, 0] * 100 + seen[:, 1] * 10 + seen[:, 2])


def test_data_are_those_of_the_first_release(tmp_path):
    write(tmp_path)
    data = draw(tmp_path, train=5, test=5)
    assert data.train.labels.tolist() == TRAIN_MODES
    assert data.test.labels.tolist() == TEST_MODES


def test_parts_are_drawn_with_streams_of_their_own(tmp_path):
    write(tmp_path)
    few, many = draw(tmp_path, train=5, test=8), draw(tmp_path, train=50, test=8)
    assert torch.equal(few.test.labels, many.test.labels)


def test_damaged_and_missing_files_are_named(tmp_path):
    folder = write(tmp_path)
    path = folder / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes() + b"extra")
    with pytest.raises(penchant.Error, match="found more than 15680 values, expected 15680"):
        draw(tmp_path)
    with pytest.raises(penchant.Error, match="stacked-mnist: files not found") as caught:
        draw(tmp_path / "nowhere")
    assert "PENCHANT_DATA" in str(caught.value) and "download = true" in str(caught.value)


def test_stacks_of_any_size():
    digits = Pixels(torch.zeros(3, 1, 28, 28, device="cpu"), torch.arange(3, device="cpu"))
    assert stack(digits, 2, generator()).inputs.shape == (2, 3, 28, 28)


def test_digits_are_scaled_as_those_of_mnist(tmp_path):
    write(tmp_path)
    whole = draw(tmp_path, train=6, test=4)
    small = draw(tmp_path, train=6, test=4, resize=14)
    assert torch.equal(small.train.labels, whole.train.labels)
    expected = torch.nn.functional.interpolate(
        whole.train.inputs, (14, 14), mode="bilinear", align_corners=False, antialias=True
    )
    assert torch.allclose(small.train.inputs, expected, atol=1e-6)
    assert small.conventions["resize"] == "bilinear, antialiased"
