"""Versions and sources of the code that a job's numbers depend on."""

import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import platform
import re
import socket
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path

from penchant.errors import Error
from penchant.plugins.registry import OWN, Registration

_ALWAYS = ("penchant", "torch", "numpy", "scipy")
_KERNEL_PACKAGES = ("penchant", "penchant_numerics")
_SKIPPED = {"tests", "build", "dist", "docs"}
_LIBRARY_FOLDERS = {"site-packages", "dist-packages"}  # of any environment, also a user's


def versions(registrations: Iterable[Registration]) -> dict[str, str]:
    """Versions of everything a job's numbers depend on, with a hash of sources that can be edited.

    Python, the kernel and its numerical libraries, every plugin, and what these plugins require.
    """
    found = {"python": platform.python_version()}
    found |= {name: _version(name) for name in _ALWAYS}
    found["penchant"] += _editable_hash("penchant", _KERNEL_PACKAGES)
    for registration in registrations:
        edited = _editable_hash(registration.distribution, (registration.package,))
        found[registration.distribution] = registration.version + edited
        for required in _requirements(registration.distribution):
            found.setdefault(required, _version(required))
    return dict(sorted(found.items()))


def check_versions(expected: Mapping[str, str], registrations: Iterable[Registration]) -> None:
    """Refuse a machine whose packages are not those of the command."""
    found = versions(registrations)
    for name, version in expected.items():
        # Sources of the user's own were sent with the job.
        if name != OWN and found.get(name, version) != version:
            host = socket.gethostname()
            raise Error(f"{name} is {found[name]} on {host}, expected {version} as in the command")


@functools.cache
def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "none"


@functools.cache
def _requirements(distribution: str) -> tuple[str, ...]:
    """Distributions that a plugin requires, without those of its extras."""
    try:
        lines = importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    # Metadata lists requirements of extras beside the others.
    matches = [re.match(r"[A-Za-z0-9._-]+", line) for line in lines if "extra ==" not in line]
    return tuple(match[0].lower() for match in matches if match)


@functools.cache
def _editable_hash(distribution: str, packages: tuple[str, ...]) -> str:
    """A "+" and a hash of the sources, where they can be edited in place; else nothing."""
    try:
        text = importlib.metadata.distribution(distribution).read_text("direct_url.json")
        if not json.loads(text or "{}").get("dir_info", {}).get("editable"):
            return ""
    except importlib.metadata.PackageNotFoundError:
        pass  # a class of the user's own has no distribution, only sources
    digest = hashlib.sha256()
    for package in packages:
        for path in _package_sources(package):
            digest.update(path.name.encode() + path.read_bytes())
    return "+" + digest.hexdigest()[:12]


def _package_sources(package: str) -> list[Path]:
    """The Python files of a package, and of modules beside it in its `src` folder."""
    # A script has no spec; what runs is its file.
    spec = importlib.util.find_spec(package) if package != "__main__" else None
    if spec is None or not spec.origin:
        origin = getattr(sys.modules.get(package), "__file__", None)
        return [Path(origin)] if origin else []
    origin = Path(spec.origin)
    folder = origin.parent
    # A single file, and those beside it where they can be edited.
    if not spec.submodule_search_locations:
        return sorted(folder.glob("*.py")) if _is_editable(origin) else [origin]
    return _python_files(folder.parent if folder.parent.name == "src" else folder)


def _is_editable(path: Path) -> bool:
    """Is this outside of where libraries are installed?"""
    # An installer may link a library's files to a cache, whose folders have other names.
    for location in (path.absolute(), path.resolve()):
        if _LIBRARY_FOLDERS.intersection(location.parts):
            return False
        if any(location.is_relative_to(library) for library in _libraries()):
            return False
    return True


def _python_files(folder: Path) -> list[Path]:
    found = []
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder).parts
        if not any(part.startswith(".") for part in parts) and not _SKIPPED.intersection(parts):
            found.append(path)
    return sorted(found)


@functools.cache
def _libraries() -> tuple[Path, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple(Path(sysconfig.get_path(name)).resolve() for name in names)


def is_own(module: str | None) -> bool:
    """Is this module the user's own, rather than of an installed library or of the kernel?"""
    if module is None:
        return False
    # The script that runs is always the user's.
    if module == "__main__":
        return True
    if module.partition(".")[0] in _KERNEL_PACKAGES:
        return False
    origin = getattr(sys.modules.get(module), "__file__", None)
    return origin is not None and _is_editable(Path(origin))


def module_sources(module: str | None) -> Iterator[bytes]:
    """Sources of a module of the user's and of all such modules that it imports, in turn."""
    seen = own_files([module] if module else [])
    for name in sorted(seen):
        yield name.encode()
        yield seen[name].read_bytes()


def own_files(modules: Iterable[str]) -> dict[str, Path]:
    """Files of modules of the user's and of all such modules that they import, by name."""
    seen: dict[str, Path] = {}
    for module in modules:
        _collect(module, seen)
    return seen


def own_sources(modules: Iterable[str]) -> dict[Path, Path]:
    """Sources of modules of the user's and what they import, with what is beside them.

    Each with its path below the folder that it is imported from. Plugins are installed, not sent.
    """
    found: dict[Path, Path] = {}
    plugins = {each.module.partition(".")[0] for each in entry_points(group="penchant")}
    for name in {name.partition(".")[0] for name in own_files(modules)} - plugins:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.origin:
            continue
        origin = Path(spec.origin)
        root = origin.parent.parent if spec.submodule_search_locations else origin.parent
        found |= {path: path.relative_to(root) for path in _package_sources(name)}
    return found


def _collect(module: str | None, seen: dict[str, Path]) -> None:
    if module is None or module in seen or not is_own(module):
        return
    loaded = sys.modules[module]
    origin = getattr(loaded, "__file__", None)
    # What is typed at a prompt has no file.
    if origin is None or not Path(origin).is_file():
        return
    seen[module] = Path(origin)
    # Modules that it imports, and those that its classes and functions come from.
    for value in list(vars(loaded).values()):
        is_module = isinstance(value, types.ModuleType)
        _collect(value.__name__ if is_module else getattr(value, "__module__", None), seen)
