"""Where the files of a dataset are, and the messages when they are missing or wrong.

Light on purpose: a job's key asks which files a dataset reads before anything is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import penchant

# Our own layout first, then the one that torchvision leaves.
IDX_FOLDERS = {
    "mnist": ("mnist", "MNIST/raw"),
    "fashion-mnist": ("fashion-mnist", "FashionMNIST/raw"),
    "kmnist": ("kmnist", "KMNIST/raw"),
}
# Images and labels for training, then for testing.
IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
CIFAR_BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5")
# As its authors hand it out.
CELEBA_FOLDER = "celeba"
CELEBA_LISTS = ("list_attr_celeba.txt", "list_eval_partition.txt")


class Layout(NamedTuple):
    """One way CIFAR's files are laid out."""

    folder: str
    train: tuple[str, ...]
    test: str
    pickled: bool


# The binary one first: it is fetched where nothing is there, and read where both are as good.
CIFAR_LAYOUTS = {
    "cifar10": (
        Layout(
            "cifar-10-batches-bin",
            tuple(f"{name}.bin" for name in CIFAR_BATCHES),
            "test_batch.bin",
            pickled=False,
        ),
        Layout("cifar-10-batches-py", CIFAR_BATCHES, "test_batch", pickled=True),
    ),
    "cifar100": (
        Layout("cifar-100-binary", ("train.bin",), "test.bin", pickled=False),
        Layout("cifar-100-python", ("train",), "test", pickled=True),
    ),
}


def data_folder(root: str | None) -> Path:
    """The option `root`, else what PENCHANT_DATA names, else the user's cache folder."""
    chosen = root or os.environ.get("PENCHANT_DATA")
    if chosen:
        return Path(chosen).expanduser()
    # Only here: with a folder chosen nothing more is imported.
    import platformdirs

    return Path(platformdirs.user_cache_dir("penchant"))


def idx_folders(dataset: str, root: str | None) -> list[Path]:
    """The folders in which the IDX files of a dataset may be."""
    base = data_folder(root)
    names = IDX_FOLDERS[dataset]
    return [base / name for name in names]


def idx_files(dataset: str, root: str | None) -> list[Path]:
    """The four IDX files in the order of their names, of the first folder that has all.

    Each is plain or gzipped. Where no folder has all of them there are none.
    """
    for folder in idx_folders(dataset, root):
        paths = []
        for name in IDX_NAMES:
            path = stored(folder, name)
            if path is not None:
                paths.append(path)
        # A folder with only some of them is not mixed with another.
        if len(paths) == len(IDX_NAMES):
            return paths
    return []


def stored(folder: Path, name: str) -> Path | None:
    """The plain file of this name, else the gzipped one, else none."""
    plain = folder / name
    packed = folder / f"{name}.gz"
    for path in (plain, packed):
        if path.is_file():
            return path
    return None


def cifar_layout(edition: str, root: str | None) -> Layout:
    """The layout with the most training batches; the binary one where they tie."""
    base = data_folder(root)

    def batches(layout: Layout) -> int:
        return len(training_batches(base, layout))

    return max(CIFAR_LAYOUTS[edition], key=batches)


def training_batches(base: Path, layout: Layout) -> list[str]:
    """Names of the training batches that are there; without a test batch they do not count."""
    folder = base / layout.folder
    test = folder / layout.test
    if not test.is_file():
        return []
    there = []
    for name in layout.train:
        path = folder / name
        if path.is_file():
            there.append(name)
    return there


def cifar_files(edition: str, root: str | None) -> list[Path]:
    """The batches that are there, of the layout that is read; the test batch is the last."""
    base = data_folder(root)
    layout = cifar_layout(edition, root)
    names = training_batches(base, layout)
    if not names:
        return []
    folder = base / layout.folder
    paths = [folder / name for name in names]
    return [*paths, folder / layout.test]


def celeba_lists(root: str | None) -> list[Path]:
    """The lists that say which picture has which attribute and belongs to which split."""
    base = data_folder(root)
    folder = base / CELEBA_FOLDER
    return [folder / name for name in CELEBA_LISTS]


def files_missing(
    dataset: str, required: Sequence[Path], *, mirrored: bool = True
) -> penchant.Error:
    """Names the files that are missing, and how to get them."""
    searched = "".join(f"\n  {path}" for path in required)
    hint = "set PENCHANT_DATA, or the option root, to the folder that contains the dataset's folder"
    if mirrored:
        hint += ", or set download = true"
    return penchant.Error(f"{dataset}: files not found; {hint}; searched:{searched}")


def wrong_file(path: Path, actual: str, expected: str) -> penchant.Error:
    """Says which file, what was found and what was expected."""
    text = f"{path}: found {actual}, expected {expected}"
    return penchant.Error(text)
