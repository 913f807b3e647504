"""Has a probe's numeric code changed since the gallery measured with it?

The fingerprint of a probe is a checksum of its module and of the modules of its own package and of
`penchant_numerics` that these import: operators, numbers and the order of calls, without names,
texts, errors, annotations and comments, so that a rename, a type or another message does not change
it, nor a module that moves. Declarations and figures are left out, and so is the compilation of
training steps, which is for accelerators: the gallery is measured on a CPU. Names that a room of
the numerics exports are followed to their modules.

`python docs/make/freshness.py` lists runs whose probe has changed. Where the numbers are the same
all the same, `python docs/make/freshness.py --accept PROBE ...` measures the quick presets of these
probes (`tests/tools/golden.py`), and accepts today's code of those that give the stored numbers.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
MEASURED = ROOT / "docs/gallery/measured.json"
GOLDEN = ROOT / "tests/tools/golden.py"
NUMERICS = ROOT / "framework/penchant_numerics"
NOT_NUMERIC = ("declarations.py", "figures.py", "compilation.py")
TEXTS = ("name", "id", "attr", "arg", "module", "asname", "kind", "level", "type_comment")


@functools.cache
def fingerprint(probe: str) -> str:
    """Checksum of the numeric code of a probe, by its name."""
    checksums = [checksum(path.read_text()) for path in modules(probe)]
    return _digest("".join(sorted(checksums)))


def modules(probe: str) -> set[Path]:
    """The module of a probe, and those of its package and of the numerics that it needs."""
    paths = sorted(ROOT.glob(f"plugins/*/src/*/{probe.replace('-', '_')}/probe.py"))
    if len(paths) != 1:
        raise SystemExit(f"expected one module of the probe {probe!r}, found {len(paths)}")
    package = paths[0].parent.parent
    seen: set[Path] = set()
    waiting = [paths[0]]
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += [*_imported(path, package), *_imported(path, NUMERICS)]
    return seen


@functools.cache
def checksum(text: str) -> str:
    """Checksum of what a module computes, whatever its names are.

    >>> checksum("def double(x): return 2 * x") == checksum("def twice(y): 'Doc.'; return 2 * y")
    True
    >>> checksum("def double(x): return 2 * x") == checksum("def double(x): return 3 * x")
    False
    """
    return _digest(" ".join(_tokens(ast.parse(text))))


def _tokens(node: Any) -> Iterator[str]:
    """Node types and numbers, in the order of the syntax tree."""
    if isinstance(node, list):
        for each in node:
            yield from _tokens(each)
    elif isinstance(node, ast.Import | ast.ImportFrom | ast.Raise | ast.Assert) or _is_typing(node):
        return
    elif isinstance(node, ast.Call) and _called(node) == "cast":
        yield from _tokens(node.args[1])
    elif isinstance(node, ast.JoinedStr):
        yield "text"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    elif isinstance(node, ast.Constant):
        yield "text" if isinstance(node.value, str | bytes) else repr(node.value)
    elif isinstance(node, ast.AST):
        yield type(node).__name__
        for field, value in ast.iter_fields(node):
            if field not in (*TEXTS, "annotation", "returns", "ctx"):
                yield from _tokens(value)


def _is_typing(node: Any) -> bool:
    """Is it there for types alone: an overload, a typed dictionary, a protocol, an alias?"""
    if isinstance(node, ast.FunctionDef):
        return any(_called(each) == "overload" for each in node.decorator_list)
    if isinstance(node, ast.ClassDef):
        return any(_called(each) in ("TypedDict", "Protocol") for each in node.bases)
    if isinstance(node, ast.AnnAssign):
        return node.value is None or _called(node.annotation) == "TypeAlias"
    if isinstance(node, ast.If):
        return _called(node.test) == "TYPE_CHECKING"
    return isinstance(node, ast.Assign) and _called(node.value) in ("TypeVar", "ParamSpec")


def _called(node: Any) -> str:
    """The name of what is called, subscripted or named."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "id", getattr(node, "attr", ""))


@functools.cache
def _imported(path: Path, package: Path) -> tuple[Path, ...]:
    """Modules of the package that a module imports, but declarations and figures."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module.split(".")[0] != package.name:
            continue
        for each in node.names:
            found += _modules_of(node.module, each.name, package)
    return tuple(found)


def _modules_of(source: str, name: str, package: Path) -> Iterator[Path]:
    """Modules of the package that `from source import name` loads the name from."""
    for dotted in (source, f"{source}.{name}"):
        module = package.parent / (dotted.replace(".", "/") + ".py")
        if module.is_file() and not _is_left_out(module.relative_to(package)):
            yield module
    exports = package.parent / source.replace(".", "/") / "__init__.py"
    if exports.is_file():
        for node in ast.walk(ast.parse(exports.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [each.name for each in node.names]
                if name in names:
                    yield from _modules_of(node.module, name, package)


def _is_left_out(path: Path) -> bool:
    return path.parts[0] == "declarations" or path.name in NOT_NUMERIC


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def stale(measured: dict[str, Any]) -> dict[str, list[str]]:
    """Run to its probes whose code has changed since."""
    found = {}
    for name, run in measured.items():
        changed = [
            probe for probe, code in run.get("code", {}).items() if fingerprint(probe) != code
        ]
        if changed:
            found[name] = changed
    return found


def accept(measured: dict[str, Any], probes: list[str]) -> None:
    """Store today's fingerprints of probes whose quick presets give the stored numbers."""
    for probe in probes:
        done = subprocess.run([sys.executable, str(GOLDEN), probe], check=False)
        if done.returncode:
            print(f"{probe}: its numbers differ from tests/fixtures/golden.json: measure again")
            continue
        for run in measured.values():
            if probe in run.get("code", {}):
                run["code"][probe] = fingerprint(probe)


def main(accepted: list[str]) -> None:
    """List stale runs, or store today's fingerprints of the probes that are named."""
    measured = json.loads(MEASURED.read_text())
    if accepted:
        accept(measured, accepted)
        text = json.dumps(measured, indent=1, sort_keys=True, allow_nan=False)
        MEASURED.write_text(text + "\n")
    for name, probes in stale(measured).items():
        version = measured[name]["version"]
        print(f"{name}: {', '.join(probes)} changed since {version}")


if __name__ == "__main__":
    main([each for each in sys.argv[1:] if each != "--accept"])
