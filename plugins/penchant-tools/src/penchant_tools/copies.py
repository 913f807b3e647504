"""Copies of finished runs in object stores, by fsspec: `penchant push` and `penchant pull`.

Beside the files lies `checksums.json`, which names what is there whole. It is written again after
every job, so that a copy that was stopped goes on where it was; nothing is locked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import penchant
from penchant.results.files import checksum
from penchant.results.inside import inside
from penchant.results.job_folder import JobFolder

CHECKSUMS = "checksums.json"
BESIDE = ("experiment.toml", "run.json", "report.html", "quantities.csv")  # of a run, if there


def finished(folder: Path) -> Iterator[list[Path]]:
    """Files of a run: of each finished job, its result last; of networks; and of the run itself."""
    for job in penchant.read(folder).jobs:
        job_folder = JobFolder.of(folder, job["id"])
        root = job_folder.path
        if job_folder.has_good_result():
            # A failure of other code, shards of a job that is computed again: not the result.
            parts = [root / "arrays.npz", *root.glob("figures/*"), *root.glob("tables/*")]
            yield [*_there(folder, sorted(parts)), job_folder.result]
    yield _there(folder, sorted(folder.glob("networks/*/*-*-*.pt")))
    yield _there(folder, [folder / name for name in BESIDE])


def _there(folder: Path, paths: Iterable[Path]) -> list[Path]:
    """Those that are files; a link that leads out of the run would publish another file."""
    return [path for path in paths if inside(folder, path.relative_to(folder)).is_file()]


def push(folder: Path, url: str) -> tuple[int, int]:
    """Copy the finished jobs of a run to an address; the number of files sent, and of all."""
    store, root = _store(url)
    known = _checksums(store, root)
    there = {path: info["size"] for path, info in _found(store, root).items()}
    sent = count = 0
    for group in finished(folder):
        before = sent
        for path in group:
            name = path.relative_to(folder).as_posix()
            digest, size = checksum(path), path.stat().st_size
            count += 1
            if known.get(name) == digest and there.get(name) == size:
                continue
            store.makedirs(f"{root}/{PurePosixPath(name).parent}", exist_ok=True)
            store.put_file(str(path), f"{root}/{name}")
            if (found := store.info(f"{root}/{name}")["size"]) != size:
                raise penchant.Error(f"{url}/{name} has {found} bytes, expected {size}; push again")
            known[name] = digest
            sent += 1
        if sent > before:
            store.pipe_file(f"{root}/{CHECKSUMS}", json.dumps(known, indent=1).encode())
    return sent, count


def pull(url: str, folder: Path) -> tuple[int, int]:
    """Copy a run from an address; the number of files received, and of all."""
    store, root = _store(url)
    known = _checksums(store, root)
    if not known:
        raise penchant.Error(f"{url} has no {CHECKSUMS}: it is not a run that was pushed")
    received = 0
    for name in _ordered(known):
        path = inside(folder, name)
        if path.is_file():
            if checksum(path) == known[name]:
                continue
            # What is written as a run goes on may be older here; numbers may not be others.
            if name not in BESIDE:
                hint = "choose another folder"
                raise penchant.Error(f"{path} differs from {url}/{name}; {hint}")
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        store.get_file(f"{root}/{name}", str(partial))
        if checksum(partial) != known[name]:
            partial.unlink()
            raise penchant.Error(f"{url}/{name} is damaged: its checksum is another; push it again")
        partial.replace(path)
        received += 1
    return received, len(known)


def _store(url: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    import fsspec

    if "://" not in url:
        raise penchant.Error(f"expected an address such as s3://bucket/run, found {url!r}")
    try:
        store, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise penchant.Error(f"{url}: {error}") from error
    return store, root.rstrip("/")


def _found(store: Any, root: str) -> dict[str, dict[str, Any]]:
    """Files below a path, by their names there."""
    try:
        listed = store.find(root, detail=True)
    except (FileNotFoundError, NotImplementedError):
        return {}
    return {path[len(root) :].lstrip("/"): info for path, info in listed.items()}


def _checksums(store: Any, root: str) -> dict[str, str]:
    try:
        known: dict[str, str] = json.loads(store.cat_file(f"{root}/{CHECKSUMS}"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise penchant.Error(f"{CHECKSUMS} of {root} is damaged: {error}") from None
    if not isinstance(known, dict):
        kind = type(known).__name__
        raise penchant.Error(f"{CHECKSUMS} of {root} must be a table of files, found {kind}")
    for name in known:
        # Its author must not choose where files go here, nor put a module there.
        parts = PurePosixPath(name).parts
        of_run = name in BESIDE or parts[:1] in (("jobs",), ("networks",))
        if ".." in parts or "\\" in name or not of_run:
            raise penchant.Error(f"{CHECKSUMS} names a file outside of the run: {name!r}")
    return known


def _ordered(names: Iterable[str]) -> list[str]:
    """A job's result after its other files, and the run's own files last."""
    return sorted(names, key=lambda name: (name in BESIDE, name.endswith("/result.json"), name))
