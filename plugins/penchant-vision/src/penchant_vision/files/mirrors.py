"""The official mirrors and the checksums of their files.

PENCHANT_MIRROR names another, for networks that cannot reach them.
"""

from __future__ import annotations

import contextlib
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import penchant

from penchant_vision.files.locations import IDX_NAMES, stored


class Mirror(NamedTuple):
    """Where files are, and their SHA-256."""

    address: str
    files: Mapping[str, str]


def _idx_mirror(address: str, *checksums: str) -> Mirror:
    """A mirror of the four IDX files, gzipped, with their checksums in the order of their names."""
    files = {}
    for name, checksum in zip(IDX_NAMES, checksums, strict=True):
        files[f"{name}.gz"] = checksum
    return Mirror(address, files)


MIRRORS: dict[str, Mirror] = {
    "mnist": _idx_mirror(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    "fashion-mnist": _idx_mirror(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
    "kmnist": _idx_mirror(
        "http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
        "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4",
        "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17",
        "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5",
        "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c",
    ),
    "cifar10": Mirror(
        "https://www.cs.toronto.edu/~kriz/",
        {
            "cifar-10-binary.tar.gz": (
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
            )
        },
    ),
    "cifar100": Mirror(
        "https://www.cs.toronto.edu/~kriz/",
        {
            "cifar-100-binary.tar.gz": (
                "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"
            )
        },
    ),
}


def fetch(dataset: str, folder: Path) -> None:
    """Fetch those files of a dataset's mirror that the folder has neither so nor unpacked."""
    with _locked(folder):
        for name in MIRRORS[dataset].files:
            unpacked = name.removesuffix(".gz")
            if stored(folder, unpacked) is None:
                _download(dataset, name, folder)


def fetch_archive(dataset: str, folder: Path, members: Sequence[str]) -> None:
    """Fetch an archive, keep these members of its folder of the same name, drop the archive."""
    with _locked(folder):
        if all((folder / member).exists() for member in members):
            return  # another process was faster
        # Everything is in one archive, which is deleted.
        (name,) = MIRRORS[dataset].files
        archive = _download(dataset, name, folder)
        _unpack(archive, folder, members)
        archive.unlink()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Workers that start together fetch once."""
    import filelock

    lock = filelock.FileLock(folder / ".download.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise penchant.Error(
            f"{folder} cannot be written: {error}; set root or PENCHANT_DATA to another folder"
        ) from error
    try:
        yield
    finally:
        lock.release()


def _download(dataset: str, name: str, folder: Path) -> Path:
    import pooch

    # Whatever mirror it comes from, the file is the official one or is refused.
    address = _address(dataset, name)
    checksum = MIRRORS[dataset].files[name]
    try:
        path = pooch.retrieve(
            address,
            f"sha256:{checksum}",
            fname=name,
            path=folder,
            downloader=pooch.HTTPDownloader(timeout=60),
        )
    except ValueError as error:  # what pooch raises for a wrong checksum
        raise penchant.Error(f"{address} is not the file that was expected: {error}") from error
    except OSError as error:  # requests' errors are among these
        raise penchant.Error(f"{address} cannot be fetched into {folder}: {error}") from error
    return Path(path)


def _address(dataset: str, name: str) -> str:
    other = os.environ.get("PENCHANT_MIRROR")
    if other:
        # A folder for each dataset: names of files are those of MNIST in several.
        base = other.rstrip("/")
        return f"{base}/{dataset}/{name}"
    return MIRRORS[dataset].address + name


def _unpack(archive: Path, folder: Path, members: Sequence[str]) -> None:
    """Only the requested members; each gets its final name when it is complete."""
    with tarfile.open(archive) as tar:
        for member in members:
            stream = _member(tar, f"{folder.name}/{member}")
            if stream is None:
                raise penchant.Error(
                    f"{archive}: found no file {folder.name}/{member}, expected one"
                )
            # A file that is there under its name is whole.
            partial = folder / f"{member}.partial"
            partial.write_bytes(stream.read())
            partial.replace(folder / member)


def _member(tar: tarfile.TarFile, name: str) -> IO[bytes] | None:
    try:
        return tar.extractfile(name)
    except KeyError:
        return None
