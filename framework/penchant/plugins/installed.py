"""What is installed here: distributions, their metadata and their entry points.

The standard library knows as well, but loads all it has about e-mail to read metadata: an eighth of
what `penchant list` takes. Where everything is installed in folders on the path, as nearly always,
these are read here. Where something else may find distributions, such as an archive on the path or
a finder of its own, the standard library is asked.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from penchant.errors import Error
from penchant.plugins.requirements import normalised

_INFO = (".dist-info", ".egg-info")
_VALUE = re.compile(r"([\w.]+)\s*(?::\s*([\w.]+)\s*)?(?:\[.*\]\s*)?$")


@attrs.frozen
class Distribution:
    """A folder of metadata, such as `penchant_nad-0.1.0.dist-info`."""

    folder: Path

    @property
    def name(self) -> str:
        """Its name, as indexes compare it."""
        name, _, _ = self.folder.stem.partition("-")
        return normalised(name)

    def read_text(self, name: str) -> str | None:
        """The text of one of its files; None where it has none."""
        path = self.folder / name
        try:
            return path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None


@attrs.frozen
class EntryPoint:
    """A name, and the object it stands for: `package.module:name`, or the module itself."""

    name: str
    value: str
    dist: Distribution

    def load(self) -> Any:
        """Import the object."""
        match = _VALUE.match(self.value)
        if match is None:
            raise Error(f"its entry point must be package.module:name, found {self.value!r}")
        module, attributes = match.groups()
        found: Any = importlib.import_module(module)
        for attribute in (attributes or "").split("."):
            if attribute:
                found = getattr(found, attribute)
        return found


def entry_points(group: str) -> list[Any]:
    """Entry points of a group, each with `name`, `load` and `dist`, in the order of the path."""
    if not _in_folders():
        import importlib.metadata

        return list(importlib.metadata.entry_points(group=group))
    found = []
    for each in distributions():
        text = each.read_text("entry_points.txt") or ""
        for name, value in _section(text, group):
            found.append(EntryPoint(name, value, each))
    return found


def distribution(name: str) -> Any:
    """The distribution of this name, which must be installed."""
    if _in_folders():
        for each in distributions():
            if each.name == normalised(name):
                return each
    import importlib.metadata

    return importlib.metadata.distribution(name)


def distributions() -> Iterator[Distribution]:
    """Distributions in folders of the path; of several with one name the first, as for import."""
    seen: set[str] = set()
    for place in sys.path:
        for folder in _children(place or "."):
            each = Distribution(folder)
            if each.name not in seen:
                seen.add(each.name)
                yield each


def _children(place: str) -> list[Path]:
    """Folders of metadata in a folder of the path."""
    # Not a path for each of hundreds of files, of which few are looked at.
    try:
        with os.scandir(place) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return []
    infos = [name for name in names if name.lower().endswith(_INFO)]
    return [Path(place, name) for name in infos]


def _in_folders() -> bool:
    """Can nothing be installed but in folders of the path?"""
    for finder in sys.meta_path:
        finds = hasattr(finder, "find_distributions")
        if finds and finder is not importlib.machinery.PathFinder:
            return False
    return not any(map(_holds_metadata_inside, sys.path))


def _holds_metadata_inside(place: str) -> bool:
    """Is it an egg or an archive?"""
    return place.endswith(".egg") or Path(place).is_file()


def _section(text: str, group: str) -> Iterator[tuple[str, str]]:
    """Names and values of a section, as `entry_points.txt` holds them."""
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == group and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()
