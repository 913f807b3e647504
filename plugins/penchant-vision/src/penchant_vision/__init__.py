"""Datasets of images, from their standard files."""

from __future__ import annotations

import attrs
import penchant


@attrs.frozen
class Images(penchant.Dataset):
    """Options of every dataset of images. Pixels are in [0, 1], inputs are (channels, height, width)."""

    per_class: int | None = penchant.option(
        None,
        "training samples of each class, chosen by the seed; nothing: all, in file order",
        at_least=1,
    )
    test_per_class: int | None = penchant.option(
        None,
        "test samples of each class, chosen by the seed; nothing: all, in file order",
        at_least=1,
    )
    resize: int | None = penchant.option(
        None, "side length that images are scaled to, bilinear with antialiasing", at_least=1
    )
    pad: int | None = penchant.option(
        None,
        "side length that images are filled up to with zeros on all sides, instead of resize",
        at_least=1,
    )
    grayscale: bool = penchant.option(
        False, "one channel: the luma 0.299 R + 0.587 G + 0.114 B; gray images stay as they are"
    )
    random_labels: float = penchant.option(
        0.0,
        "share of training labels drawn anew, uniformly over all classes",
        at_least=0,
        at_most=1,
    )
    standardize: bool = penchant.option(
        False,
        "subtract mean and divide by standard deviation, per channel, of the training samples",
    )

    def __attrs_post_init__(self) -> None:
        if self.resize is not None and self.pad is not None:
            raise penchant.Error(
                f"{self.name} takes resize or pad, found both ({self.resize} and {self.pad})"
            )


@attrs.frozen
class StoredImages(Images):
    """Options of datasets that are read from files."""

    root: str | None = penchant.option(
        None, "folder with the dataset's folder; nothing: PENCHANT_DATA, else the user's cache"
    )
    download: bool = penchant.option(
        False, "fetch the files into root from the official mirror if they are not there"
    )


@attrs.frozen
class Digits(Images):
    """Handwritten digits, 1 x 8 x 8, ten classes; comes with scikit-learn, needs no files.

    There is no official split: every fifth sample of each class, in file order, is a test sample (1442 + 355).

    Reference: Alpaydin, Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998.
    """

    name = "digits"
    target = "penchant_vision.digits:load"


@attrs.frozen
class Mnist(StoredImages):
    """Handwritten digits, 1 x 28 x 28, ten classes, 60000 + 10000.

    Files: IDX, gzipped or plain, in `mnist/` or `MNIST/raw/`.

    Reference: LeCun, Bottou, Bengio, Haffner, "Gradient-Based Learning Applied to Document Recognition", Proc. IEEE 1998.
    """

    name = "mnist"
    target = "penchant_vision.idx:load"


@attrs.frozen
class FashionMnist(StoredImages):
    """Articles of clothing, 1 x 28 x 28, ten classes, 60000 + 10000.

    Files: IDX, gzipped or plain, in `fashion-mnist/` or `FashionMNIST/raw/`.

    Reference: Xiao, Rasul, Vollgraf, "Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning Algorithms", 2017.
    """

    name = "fashion-mnist"
    target = "penchant_vision.idx:load"


@attrs.frozen
class Kmnist(StoredImages):
    """Cursive Japanese characters, 1 x 28 x 28, ten classes, 60000 + 10000.

    Files: IDX, gzipped or plain, in `kmnist/` or `KMNIST/raw/`.

    Reference: Clanuwat et al., "Deep Learning for Classical Japanese Literature", 2018.
    """

    name = "kmnist"
    target = "penchant_vision.idx:load"


@attrs.frozen
class Cifar10(StoredImages):
    """Photographs of ten kinds of animals and vehicles, 3 x 32 x 32, 50000 + 10000.

    Files: `cifar-10-batches-bin/` (binary) or `cifar-10-batches-py/` (pickles); training batches that are there are used.

    Reference: Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
    """

    name = "cifar10"
    target = "penchant_vision.cifar:load"


@attrs.frozen
class Cifar100(StoredImages):
    """Photographs of a hundred kinds of things, 3 x 32 x 32, 50000 + 10000; fine labels.

    Files: `cifar-100-binary/` (binary) or `cifar-100-python/` (pickles).

    Reference: Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
    """

    name = "cifar100"
    target = "penchant_vision.cifar:load"


@attrs.frozen
class Cifar2(StoredImages):
    """CIFAR-10 as animals (class 1) against the rest (class 0).

    Six of the ten kinds are animals, so that classes are balanced only with `per_class`. Files as for cifar10.

    Reference: the binary task of "Geometric Inductive Biases of Deep Networks: The Role of Data and Architecture".
    """

    name = "cifar2"
    target = "penchant_vision.cifar:load"


@penchant.hookimpl
def penchant_datasets() -> list[type[penchant.Dataset]]:
    return [Digits, Mnist, FashionMnist, Kmnist, Cifar10, Cifar100, Cifar2]
