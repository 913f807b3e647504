"""Where the files of a dataset are, and what users are told when they are not there or not complete."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import penchant

from penchant_vision import StoredImages


def data_folder(options: StoredImages) -> Path:
    """The option `root`, else the environment variable PENCHANT_DATA, else the user's cache folder."""
    chosen = options.root or os.environ.get("PENCHANT_DATA")
    if chosen:
        return Path(chosen).expanduser()
    import pooch

    return Path(pooch.os_cache("penchant"))


def files_missing(options: StoredImages, wanted: Sequence[Path]) -> penchant.Error:
    """Says what was looked for, where, and how to get it."""
    looked = "".join(f"\n  {path}" for path in wanted)
    cure = "set PENCHANT_DATA or root to the folder that holds the dataset's folder, or download = true to fetch it"
    return penchant.Error(f"{options.name}: the files are not there; {cure}; looked for{looked}")


def wrong_file(path: Path, found: str, expected: str) -> penchant.Error:
    """Says which file, what was found and what was expected."""
    return penchant.Error(f"{path}: found {found}, expected {expected}")


def completeness(part: str, found: int, complete: int) -> tuple[str, list[str]]:
    """How many images are there, as a convention, and a warning where some are missing."""
    return f"{found} of {complete}", [] if found == complete else [
        f"the files hold {found} of {complete} {part} images"
    ]
