"""Real files, where PENCHANT_DATA has them: known counts, moments and accuracies."""

import hashlib
import os
from pathlib import Path

import pytest
import torch
from penchant_numerics.data import as_data
from penchant_vision.datasets import cifar2, cifar10, fashion_mnist, mnist
from penchant_vision.declarations import Cifar2, Cifar10, FashionMnist, Mnist


def needs(*folders):
    root = os.environ.get("PENCHANT_DATA")
    there = root and any((Path(root) / folder).is_dir() for folder in folders)
    return pytest.mark.skipif(
        not there, reason=f"PENCHANT_DATA names no folder with {' or '.join(folders)}"
    )


def draw(component, target, **options):
    return as_data(target(component.bind(options), torch.Generator(device="cpu").manual_seed(0)))


def nearest_mean_accuracy(data):
    train, test = data.train.inputs.flatten(1), data.test.inputs.flatten(1)
    means = torch.stack(
        [train[data.train.labels == label].mean(0) for label in range(data.classes)]
    )
    return (torch.cdist(test, means).argmin(1) == data.test.labels).double().mean().item()


@needs("mnist", "MNIST/raw")
def test_mnist_is_mnist():
    data = draw(Mnist, mnist.load)
    assert data.train.labels.bincount().tolist() == [
        5923,
        6742,
        5958,
        6131,
        5842,
        5421,
        5918,
        6265,
        5851,
        5949,
    ]
    assert data.test.labels.bincount().tolist() == [
        980,
        1135,
        1032,
        1010,
        982,
        892,
        958,
        1028,
        974,
        1009,
    ]
    pixels = data.train.inputs
    assert round(pixels.mean().item(), 4) == 0.1307 and round(pixels.std().item(), 4) == 0.3081
    assert round(nearest_mean_accuracy(data), 4) == 0.8203
    stored = (pixels * 255).round().to(torch.uint8).numpy().tobytes()
    header = bytes.fromhex("00000803 0000ea60 0000001c 0000001c")
    assert (
        hashlib.sha256(header + stored).hexdigest()
        == "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
    )


@needs("mnist", "MNIST/raw")
def test_fifty_thousand_balanced_digits():
    data = draw(Mnist, mnist.load, per_class=5000)
    assert data.train.labels.bincount().tolist() == [5000] * 10


@needs("fashion-mnist", "FashionMNIST/raw")
def test_fashion_mnist_is_fashion_mnist():
    data = draw(FashionMnist, fashion_mnist.load)
    assert (
        data.train.labels.bincount().tolist() == [6000] * 10
        and data.test.labels.bincount().tolist() == [1000] * 10
    )
    assert (
        round(data.train.inputs.mean().item(), 4) == 0.2860
        and round(data.train.inputs.std().item(), 4) == 0.3530
    )
    assert nearest_mean_accuracy(data) > 0.67


@needs("cifar-10-batches-bin", "cifar-10-batches-py")
def test_cifar_images_are_photographs():
    data = draw(Cifar10, cifar10.load)
    assert data.shape == (3, 32, 32)
    means = data.train.inputs.mean((0, 2, 3))
    torch.testing.assert_close(
        means, torch.tensor([0.4914, 0.4822, 0.4465], device="cpu"), atol=0.01, rtol=0
    )
    some = data.train.inputs[::20]
    for left, right in ((some[..., :-1], some[..., 1:]), (some[:, :, :-1], some[:, :, 1:])):
        assert (
            torch.corrcoef(torch.stack([left.flatten(), right.flatten()]))[0, 1] > 0.9
        )  # planes and rows are where they belong
    assert 0.25 < nearest_mean_accuracy(data) < 0.30
    whole = data.conventions["training batches"] == "5 of 5" and not data.warnings
    assert whole or any(
        "of 10000 test images" in each or "training batches" in each for each in data.warnings
    )


@needs("cifar-10-batches-bin", "cifar-10-batches-py")
def test_cifar2_is_balanced_gray_and_of_the_size_asked_for():
    data = draw(
        Cifar2,
        cifar2.load,
        per_class=500,
        test_per_class=200,
        grayscale=True,
        resize=16,
        standardize=True,
    )
    assert data.shape == (1, 16, 16) and data.train.labels.bincount().tolist() == [500, 500]
    assert abs(data.train.inputs.mean()) < 1e-5 and abs(data.train.inputs.std() - 1) < 1e-4
    assert nearest_mean_accuracy(data) > 0.6
