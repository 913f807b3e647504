"""CIFAR batches, binary and pickled: the same images from both, and every fault named."""

import pickle

import numpy as np
import penchant
import pytest
import torch
from penchant_numerics.data import as_data
from penchant_vision.datasets import cifar2, cifar10, cifar100
from penchant_vision.declarations import Cifar2, Cifar10, Cifar100

LOAD = {Cifar2: cifar2.load, Cifar10: cifar10.load, Cifar100: cifar100.load}


def batch(count, classes=10, seed=0):
    generator = np.random.default_rng(seed)
    return generator.integers(256, size=(count, 3072), dtype=np.uint8), (
        np.arange(count) % classes
    ).astype(np.uint8)


def write_binary(path, images, labels, *, coarse=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = (
        [labels[:, None] // 5, labels[:, None], images] if coarse else [labels[:, None], images]
    )
    path.write_bytes(np.concatenate(columns, axis=1).astype(np.uint8).tobytes())


def write_pickle(path, images, labels, *, key=b"labels"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        pickle.dumps(
            {b"data": images, key: labels.tolist(), b"batch_label": b"a batch"}, protocol=2
        )
    )


def write_cifar10(root, batches=(1, 2, 3, 4, 5), count=20):
    for number in batches:
        write_binary(
            root / f"cifar-10-batches-bin/data_batch_{number}.bin", *batch(count, seed=number)
        )
    write_binary(root / "cifar-10-batches-bin/test_batch.bin", *batch(10, seed=9))


def write_cifar10_pickles(root, batches=(1, 2, 3, 4, 5), count=20):
    for number in batches:
        write_pickle(root / f"cifar-10-batches-py/data_batch_{number}", *batch(count, seed=number))
    write_pickle(root / "cifar-10-batches-py/test_batch", *batch(10, seed=9))


def draw(component, root, **options):
    chosen = component.bind({"root": str(root), **options})
    return as_data(LOAD[component](chosen, torch.Generator(device="cpu").manual_seed(0)))


def test_binary_batches_hold_planes_of_rows(tmp_path):
    write_cifar10(tmp_path)
    data = draw(Cifar10, tmp_path)
    images, labels = batch(20, seed=2)
    assert data.shape == (3, 32, 32) and data.classes == 10 and len(data.train.labels) == 100
    assert round(data.train.inputs[20 + 7, 1, 2, 3].item() * 255) == images[7, 1024 + 2 * 32 + 3]
    assert data.train.labels[20:40].tolist() == labels.tolist()


def test_pickled_batches_give_the_same(tmp_path):
    write_cifar10(tmp_path / "binary")
    write_cifar10_pickles(tmp_path / "pickled")
    one, two = draw(Cifar10, tmp_path / "binary"), draw(Cifar10, tmp_path / "pickled")
    assert torch.equal(one.train.inputs, two.train.inputs) and torch.equal(
        one.train.labels, two.train.labels
    )
    assert torch.equal(one.test.inputs, two.test.inputs) and torch.equal(
        one.test.labels, two.test.labels
    )


def test_cifar100_has_fine_labels_in_both_formats(tmp_path):
    for split, seed in (("train", 0), ("test", 1)):
        images, labels = batch(200, classes=100, seed=seed)
        write_binary(tmp_path / f"binary/cifar-100-binary/{split}.bin", images, labels, coarse=True)
        write_pickle(
            tmp_path / f"pickled/cifar-100-python/{split}", images, labels, key=b"fine_labels"
        )
    one, two = draw(Cifar100, tmp_path / "binary"), draw(Cifar100, tmp_path / "pickled")
    assert one.classes == 100 and one.train.labels.tolist() == [*range(100)] * 2
    assert torch.equal(one.train.inputs, two.train.inputs) and torch.equal(
        one.test.labels, two.test.labels
    )


def test_cifar2_is_animals_against_the_rest(tmp_path):
    write_cifar10(tmp_path)
    data, ten = draw(Cifar2, tmp_path), draw(Cifar10, tmp_path)
    animals = {"bird", "cat", "deer", "dog", "frog", "horse"}
    kinds = [
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ]
    assert data.train.labels.tolist() == [
        int(kinds[label] in animals) for label in ten.train.labels
    ]
    assert data.classes == 2 and data.conventions["class 1"] == "animals"
    balanced = draw(Cifar2, tmp_path, per_class=40, test_per_class=4)
    assert balanced.train.labels.bincount().tolist() == [
        40,
        40,
    ] and balanced.test.labels.bincount().tolist() == [4, 4]
    with pytest.raises(
        penchant.Error,
        match="per_class must be at most 40, the training samples of class 0, found 41",
    ):
        draw(Cifar2, tmp_path, per_class=41)


def test_batches_that_are_there_are_used_with_a_warning(tmp_path):
    write_cifar10(tmp_path, batches=(1, 4))
    data = draw(Cifar10, tmp_path)
    assert len(data.train.labels) == 40
    assert (
        data.conventions["training batches"] == "2 of 5"
        and data.conventions["training images"] == "40 of 50000"
    )
    assert data.warnings == (
        "the files hold 2 of 5 training batches, 40 of 50000 training images",
        "the files hold 10 of 10000 test images",
    )


def test_the_format_with_more_batches_is_used(tmp_path):
    write_cifar10(tmp_path, batches=(1,))
    write_cifar10_pickles(tmp_path, batches=(1, 2))
    assert draw(Cifar10, tmp_path).conventions["training batches"] == "2 of 5"


@pytest.mark.parametrize("component", [Cifar10, Cifar100, Cifar2])
def test_missing_files_are_named_with_the_cure(tmp_path, component):
    with pytest.raises(penchant.Error, match=f"^{component.name}: files not found") as caught:
        draw(component, tmp_path)
    text = str(caught.value)
    assert (
        str(tmp_path) in text
        and "PENCHANT_DATA" in text
        and "download = true" in text
        and text.count("cifar-10") >= 4
    )


def test_training_batches_without_a_test_batch_are_not_enough(tmp_path):
    write_cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-bin/test_batch.bin").unlink()
    with pytest.raises(penchant.Error, match="test_batch.bin"):
        draw(Cifar10, tmp_path)


@pytest.mark.parametrize("size", [0, 3072, 3074, 10 * 3073 - 1])
def test_sizes_that_are_no_whole_number_of_records_are_refused(tmp_path, size):
    write_cifar10(tmp_path)
    path = tmp_path / "cifar-10-batches-bin/data_batch_3.bin"
    path.write_bytes(bytes(size))
    with pytest.raises(
        penchant.Error,
        match=f"found {size} bytes, expected a whole number of records of 3073 bytes",
    ) as caught:
        draw(Cifar10, tmp_path)
    assert str(caught.value).startswith(str(path))


def test_cifar100_records_are_one_byte_longer(tmp_path):
    for split in ("train", "test"):
        write_binary(tmp_path / f"cifar-100-binary/{split}.bin", *batch(10))
    with pytest.raises(
        penchant.Error, match="found 30730 bytes, expected a whole number of records of 3074 bytes"
    ):
        draw(Cifar100, tmp_path)


def test_labels_out_of_range_are_refused(tmp_path):
    write_cifar10(tmp_path)
    write_binary(tmp_path / "cifar-10-batches-bin/test_batch.bin", *batch(20, classes=12))
    with pytest.raises(
        penchant.Error, match="test_batch.bin: found the label 10, expected labels 0 to 9"
    ):
        draw(Cifar10, tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, r"found NoneType under 'data', expected uint8 \[images, 3072\]"),
        ({"data": np.zeros((4, 3072))}, r"found float64 \[4, 3072\] under 'data'"),
        ({"data": np.zeros((4, 100), np.uint8)}, r"found uint8 \[4, 100\] under 'data'"),
        ({"data": np.zeros((4, 3072), np.uint8)}, "under 'labels', expected 4 whole numbers"),
        (
            {"data": np.zeros((4, 3072), np.uint8), "labels": [1, 2, 3]},
            r"found int64 \[3\] under 'labels'",
        ),
        ({"data": np.zeros((4, 3072), np.uint8), "labels": [1.5, 2, 3, 4]}, "found float64"),
        (
            {"data": np.zeros((4, 3072), np.uint8), "labels": [1, 2, 3, -1]},
            "found the label -1, expected labels 0 to 9",
        ),
    ],
)
def test_pickles_without_images_and_labels_are_refused(tmp_path, content, message):
    write_cifar10_pickles(tmp_path)
    path = tmp_path / "cifar-10-batches-py/data_batch_1"
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(penchant.Error, match=message) as caught:
        draw(Cifar10, tmp_path)
    assert str(caught.value).startswith(str(path))
