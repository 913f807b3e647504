"""What makes two jobs the same: canonical descriptions, hashes, versions and sources."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import inspect
import json
import pickle
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from penchant.components import Component, resolve
from penchant.errors import Error
from penchant.plugins import Offer


def derive(*keys: Any) -> int:
    """A seed from keys, the same on every machine: 63 bits of a hash, so that seeds of different keys are independent."""
    return int.from_bytes(hashlib.sha256(json.dumps(keys).encode()).digest()[:8], "big") >> 1


def short_hash(value: Any) -> str:
    """Eight hexadecimal digits of a JSON-like value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def describe(component: Component, offer: Offer | None = None) -> dict[str, Any]:
    """A component as results record it: name, options, plugin, version."""
    origin = {} if offer is None else {"plugin": offer.distribution, "version": offer.version}
    return {"name": component.name, "options": plain(component.options()), **origin}


def plain(value: Any) -> Any:
    """JSON-like form of an option: arrays and objects by their content."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)) and all(
        isinstance(part, (bool, int, float, str, list, tuple, dict)) for part in value
    ):
        return [plain(part) for part in value]
    return f"<{_title(value)} {content_hash(value)[:16]}>"


def _title(value: Any) -> str:
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}:{value.__qualname__}"
    return type(value).__name__


def content_hash(value: Any) -> str:
    """A hash of what an object holds: numbers of arrays and modules, source of functions."""
    digest = hashlib.sha256(_title(value).encode())
    for part in _contents(value):
        digest.update(part)
    return digest.hexdigest()


def _contents(value: Any) -> Iterable[bytes]:
    if isinstance(value, (list, tuple)):
        return [content_hash(part).encode() for part in value]
    if hasattr(value, "state_dict"):
        return [
            part
            for name, tensor in value.state_dict().items()
            for part in (name.encode(), *_contents(tensor))
        ]
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if hasattr(value, "tobytes"):
        return [str((value.shape, str(value.dtype))).encode(), value.tobytes()]
    if inspect.isroutine(value) or inspect.isclass(value):
        try:
            return [inspect.getsource(value).encode()]
        except (OSError, TypeError):
            return []
    try:
        return [pickle.dumps(value)]
    except Exception:  # whatever a user's object raises when pickled
        raise Error(
            f"{_title(value)} cannot be told apart from others of its kind: it can be neither hashed nor pickled"
        ) from None


def versions(offers: Iterable[Offer]) -> dict[str, str]:
    """Versions of everything that a job's numbers depend on, with a hash of sources that can be edited in place."""
    found = {name: _version(name) for name in ("penchant", "torch", "numpy")}
    found["penchant"] += _source_hash("penchant", ("penchant", "penchant_numerics"))
    for offer in offers:
        package = offer.component.__module__.partition(".")[0]
        found[offer.distribution] = offer.version + _source_hash(offer.distribution, (package,))
    return dict(sorted(found.items()))


@functools.cache
def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "none"


@functools.cache
def _source_hash(distribution: str, packages: tuple[str, ...]) -> str:
    """ "+" and a hash of the sources, for an editable installation or a module of the user's; else nothing."""
    try:
        direct = importlib.metadata.distribution(distribution).read_text("direct_url.json") or "{}"
        if not json.loads(direct).get("dir_info", {}).get("editable"):
            return ""
    except importlib.metadata.PackageNotFoundError:
        pass
    digest = hashlib.sha256()
    for package in packages:
        for path in _sources(package):
            digest.update(path.name.encode() + path.read_bytes())
    return "+" + digest.hexdigest()[:12]


def _sources(package: str) -> list[Path]:
    import importlib.util

    spec = importlib.util.find_spec(package) if package != "__main__" else None
    if spec is None:
        origin = getattr(sys.modules.get(package), "__file__", None)
        return [Path(origin)] if origin else []
    if spec.submodule_search_locations:
        return sorted(
            path for place in spec.submodule_search_locations for path in Path(place).rglob("*.py")
        )
    return [Path(spec.origin)] if spec.origin and Path(spec.origin).is_file() else []


def file_hash(path: str | Path) -> str:
    """A hash of a file's content; "none" where there is no such file."""
    path = Path(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path.is_file() else "none"


def imported_code(component: Component) -> dict[str, str]:
    """Hashes of the user's own code and files that a component's options name."""
    found = {}
    for field, value in component.options().items():
        metadata = {each.name: each.metadata for each in type(component).__attrs_attrs__}[field]
        if metadata["target"] and isinstance(value, str):
            source = inspect.getsourcefile(inspect.unwrap(resolve(value, field)))
            found[f"{component.name}.{field}"] = file_hash(source or "")
        if metadata["array"] and isinstance(value, str) and not value.startswith("run:"):
            found[f"{component.name}.{field}"] = file_hash(value)
    return found
