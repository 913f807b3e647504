"""Every dataset as data; imports penchant and attrs only, and the light module of locations."""

from __future__ import annotations

import attrs
import penchant

from penchant_vision.files import locations

WHERE = "None: PENCHANT_DATA, else the user's cache"


@attrs.frozen
class Images(penchant.Dataset):
    """Options of every dataset of classes of images: inputs are (channels, height, width)."""

    # Which samples.
    per_class: int | None = penchant.option(
        None,
        "training samples of each class, chosen by the seed; None: all, in file order",
        at_least=1,
    )
    test_per_class: int | None = penchant.option(
        None, "test samples of each class, chosen by the seed; None: all, in file order", at_least=1
    )
    # Preprocessing of images.
    resize: int | None = penchant.option(
        None,
        "side length that images are scaled to, bilinear with antialiasing; None: unchanged",
        at_least=1,
    )
    pad: int | None = penchant.option(
        None, "side length to which images are padded with zeros, instead of resize", at_least=1
    )
    grayscale: bool = penchant.option(
        False, "one channel: the luma 0.299 R + 0.587 G + 0.114 B; gray images are unchanged"
    )
    # Labels.
    random_labels: float = penchant.option(
        0.0, "share of training labels replaced by uniformly random ones", at_least=0, at_most=1
    )
    # Pixels.
    standardize: bool = penchant.option(
        False,
        "subtract the mean and divide by the standard deviation of each channel over the "
        "training samples, as most published recipes do; else pixels are in [0, 1]",
    )

    def __attrs_post_init__(self) -> None:
        # Both say how large an image becomes.
        if self.resize is not None and self.pad is not None:
            raise penchant.Error(
                f"{self.name} takes resize or pad, found both ({self.resize} and {self.pad})"
            )


@attrs.frozen
class StoredImages(Images):
    """Options of datasets that are read from files."""

    # Where the files are.
    root: str | None = penchant.option(None, f"folder with the dataset's folder; {WHERE}")
    download: bool = penchant.option(
        False, "download missing files into root from the official mirror"
    )


@attrs.frozen
class IdxImages(StoredImages):
    """Options of datasets that are read from IDX files."""

    def files(self) -> tuple[str, ...]:
        """The four IDX files that exist."""
        paths = locations.idx_files(self.name, self.root)
        return tuple(map(str, paths))


@attrs.frozen
class CifarImages(StoredImages):
    """Options of datasets that are read from CIFAR's batches."""

    def files(self) -> tuple[str, ...]:
        """The batches that exist, in the layout that is read."""
        # Cifar2 reads what cifar10 reads.
        edition = "cifar100" if self.name == "cifar100" else "cifar10"
        paths = locations.cifar_files(edition, self.root)
        return tuple(map(str, paths))


class Digits(Images):
    """Handwritten digits, 1 x 8 x 8, ten classes; comes with scikit-learn, needs no files.

    There is no official split: every fifth sample of each class, in file order, is a test sample
    (1442 + 355).

    Reference: Alpaydin, Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
    Repository, 1998.
    """

    name = "digits"
    target = "penchant_vision.datasets.digits:load"


class Mnist(IdxImages):
    """Handwritten digits, 1 x 28 x 28, ten classes, 60000 + 10000.

    Files: IDX, gzipped or plain, in `mnist/` or `MNIST/raw/`. Classes differ in size (5421 to 6742
    training samples); `per_class = 5000` is the balanced subset of 50,000.

    Reference: LeCun, Bottou, Bengio, Haffner, "Gradient-Based Learning Applied to Document
    Recognition", Proc. IEEE 1998.
    """

    name = "mnist"
    target = "penchant_vision.datasets.mnist:load"


class FashionMnist(IdxImages):
    """Articles of clothing, 1 x 28 x 28, ten classes, 60000 + 10000.

    Files: IDX, gzipped or plain, in `fashion-mnist/` or `FashionMNIST/raw/`.

    Reference: Xiao, Rasul, Vollgraf, "Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine
    Learning Algorithms", 2017.
    """

    name = "fashion-mnist"
    target = "penchant_vision.datasets.fashion_mnist:load"


class Kmnist(IdxImages):
    """Cursive Japanese characters, 1 x 28 x 28, ten classes, 60000 + 10000.

    Files: IDX, gzipped or plain, in `kmnist/` or `KMNIST/raw/`.

    Reference: Clanuwat et al., "Deep Learning for Classical Japanese Literature", 2018.
    """

    name = "kmnist"
    target = "penchant_vision.datasets.kmnist:load"


@attrs.frozen
class StackedMnist(penchant.Dataset):
    """Three MNIST digits as the channels of one image, 3 x 28 x 28: 1000 modes.

    The label is the three digits read as a number. Digits are sampled with replacement; test images
    are stacked from MNIST's test digits. Files: as for mnist.

    Reference: Metz, Poole, Pfau, Sohl-Dickstein, "Unrolled Generative Adversarial Networks", ICLR
    2017.
    """

    name = "stacked-mnist"
    target = "penchant_vision.datasets.stacked_mnist:load"

    # Where the files are.
    root: str | None = penchant.option(None, f"folder with the folder of MNIST; {WHERE}")
    download: bool = penchant.option(
        False, "download missing files of MNIST into root from the official mirror"
    )
    # How much is sampled.
    train: int = penchant.option(128000, "training images", at_least=1)
    test: int = penchant.option(26000, "test images", at_least=1)
    resize: int | None = penchant.option(
        None,
        "side length that digits are scaled to, bilinear with antialiasing; None: unchanged",
        at_least=1,
    )

    def files(self) -> tuple[str, ...]:
        """The four IDX files of MNIST that exist."""
        paths = locations.idx_files("mnist", self.root)
        return tuple(map(str, paths))


class Cifar10(CifarImages):
    """Photographs of ten kinds of animals and vehicles, 3 x 32 x 32, 50000 + 10000.

    Files: `cifar-10-batches-bin/` (binary) or `cifar-10-batches-py/` (pickles); training batches
    that exist are used.

    Reference: Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
    """

    name = "cifar10"
    target = "penchant_vision.datasets.cifar10:load"


class Cifar100(CifarImages):
    """Photographs of a hundred kinds of things, 3 x 32 x 32, 50000 + 10000; fine labels.

    Files: `cifar-100-binary/` (binary) or `cifar-100-python/` (pickles).

    Reference: Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
    """

    name = "cifar100"
    target = "penchant_vision.datasets.cifar100:load"


class Cifar2(CifarImages):
    """CIFAR-10 as animals (class 1) against the rest (class 0).

    Six of the ten kinds are animals, so classes are balanced only with `per_class`. Files as
    for cifar10.

    Reference: the binary task of "Geometric Inductive Biases of Deep Networks: The Role of Data and
    Architecture".
    """

    name = "cifar2"
    target = "penchant_vision.datasets.cifar2:load"


@attrs.frozen
class CelebA(penchant.Dataset):
    """Aligned faces, the middle square in colours; the label is one attribute.

    The official split; validation pictures are left out. Files, in `celeba/`: the folder
    `img_align_celeba`, `list_attr_celeba.txt` and `list_eval_partition.txt`. A job's id
    contains a hash of the two lists; the pictures themselves are not checked.

    Reference: Liu, Luo, Wang, Tang, "Deep Learning Face Attributes in the Wild", ICCV 2015.
    """

    name = "celeba"
    target = "penchant_vision.datasets.celeba:load"

    # Where the files are.
    root: str | None = penchant.option(None, f"folder with the folder celeba; {WHERE}")
    # What a sample is.
    attribute: str = penchant.option("Male", "attribute that is the label, as its file names it")
    resize: int | None = penchant.option(
        64,
        "side length that the squares are scaled to, bilinear with antialiasing; None: unchanged",
        at_least=8,
    )
    # How many there are.
    train: int | None = penchant.option(
        None,
        "training pictures, the first in the order of their numbers; None: all (162770)",
        at_least=1,
    )
    test: int | None = penchant.option(
        None,
        "test pictures, the first in the order of their numbers; None: all (19962)",
        at_least=1,
    )

    def files(self) -> tuple[str, ...]:
        """The lists of attributes and splits."""
        paths = locations.celeba_lists(self.root)
        return tuple(map(str, paths))
