"""Does every name of torch that the sources use exist in the oldest torch they say they run on?

The floors are those of the pyproject files. `tests/fixtures/torch-names.json` stores, for each
floor, the names that exist in its wheel; `test_torch_floor.py` compares it with the sources.

    $ pip download --no-deps --only-binary=:all: --platform macosx_11_0_arm64 torch==2.8.0
    $ python tests/tools/torch_floor.py torch-2.8.0-*.whl         # reads the wheel and stores its names

(The wheels for macOS are the small ones; names are the same.)
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STORED = Path(__file__).parents[1] / "fixtures" / "torch-names.json"
# What torch defines in C++ has its stubs here.
STUBS = {
    "torch": ("torch._C", "torch._C._VariableFunctions"),
    "torch.nn.functional": ("torch._C._nn",),
    "torch._C": ("torch._C._VariableFunctions",),
}


def distributions() -> list[Path]:
    """The folders of all distributions."""
    return [ROOT, ROOT / "framework/penchant_numerics", *sorted(ROOT.glob("plugins/penchant-*"))]


def floor(folder: Path) -> str | None:
    """The oldest torch that a distribution takes; None where it needs none itself."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    for requirement in project["dependencies"]:
        if match := re.fullmatch(r"torch>=([\d.]+)", requirement):
            return match[1]
    return None


def sources(folder: Path) -> list[Path]:
    """The modules of a distribution."""
    package = {ROOT: ROOT / "framework/penchant"}.get(folder, folder / "src")
    return sorted((package if package.is_dir() else folder).rglob("*.py"))


def used_names(folder: Path) -> dict[str, str]:
    """Every dotted name of torch in a distribution, with the first file that uses it."""
    found: dict[str, str] = {}
    for path in sources(folder):
        for name in names_in(path.read_text()):
            found.setdefault(name, str(path.relative_to(ROOT)))
    return found


def names_in(source: str) -> set[str]:
    """Every dotted name of torch in a source, through the names it imports them by.

    >>> sorted(names_in("from torch import nn\\nx = nn.Linear(1, torch.ones(1).shape[0])"))
    ['torch.nn', 'torch.nn.Linear', 'torch.ones']
    """
    tree = ast.parse(source)
    known = {"torch": "torch"}
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            for each in node.names:
                known[each.asname or each.name] = f"{node.module}.{each.name}"
                names.add(f"{node.module}.{each.name}")
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name.startswith("torch."):
                    names.add(each.name)
                    known |= {each.asname: each.name} if each.asname else {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (dotted := _dotted(node)):
            first, _, rest = dotted.partition(".")
            if first in known:
                names.add(f"{known[first]}.{rest}")
    # Operators are registered while a program runs; every module has a version or a file.
    return {name for name in names if not re.search(r"^torch\.ops\.|\.__\w+__$", name)}


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)):
        return f"{before}.{node.attr}"
    return None


class Wheel:
    """The names of a wheel of torch, read without importing it."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path)
        self._files = set(self._archive.namelist())
        self._defined: dict[str, set[str]] = {}

    def has(self, name: str) -> bool:
        """Does a dotted name exist?"""
        module, rest = name, ""
        while not self._paths(module):
            module, _, last = module.rpartition(".")
            rest = f"{last}.{rest}" if rest else last
        if not rest:
            return True
        first, _, attribute = rest.partition(".")
        if first not in self.defined(module):
            return False
        # Attributes of classes and objects are searched where these are written.
        return not attribute or self._written(module, attribute.split(".")[0])

    def defined(self, module: str) -> set[str]:
        """The names of a module."""
        if module not in self._defined:
            self._defined[module] = found = set()
            for path in self._paths(module):
                found |= set(self._top_level(ast.parse(self._text(path)).body, module))
            for stubs in STUBS.get(module, ()):
                found |= self.defined(stubs)
        return self._defined[module]

    def _top_level(self, body: list[ast.stmt], module: str) -> Iterator[str]:
        for node in body:
            match node:
                case ast.FunctionDef() | ast.ClassDef():
                    yield node.name
                case ast.Assign():
                    yield from (each.id for each in node.targets if isinstance(each, ast.Name))
                case ast.AnnAssign(target=ast.Name(name)):
                    yield name
                case ast.Import():
                    yield from ((each.asname or each.name).split(".")[0] for each in node.names)
                case ast.ImportFrom():
                    yield from self._imported(node, module)
                case ast.If() | ast.Try():
                    yield from self._top_level(node.body + node.orelse, module)
                case _:
                    pass

    def _imported(self, node: ast.ImportFrom, module: str) -> Iterator[str]:
        for each in node.names:
            if each.name != "*":
                yield each.asname or each.name
            else:
                package = module if node.level else ""
                yield from self.defined(f"{package}.{node.module}".strip("."))

    def _written(self, module: str, attribute: str) -> bool:
        pattern = re.compile(rf"\b(def |class )?{attribute}\b")
        modules = (module, "torch._tensor", *STUBS.get(module, ()), "torch._C")
        return any(pattern.search(self._text(path)) for m in modules for path in self._paths(m))

    def _paths(self, module: str) -> list[str]:
        stem = module.replace(".", "/")
        names = [stem + ending for ending in (".py", ".pyi", "/__init__.py", "/__init__.pyi")]
        return [name for name in names if name in self._files]

    def _text(self, path: str) -> str:
        return self._archive.read(path).decode()


def main(wheel: Path) -> None:
    """Store the names that a wheel has, and print those it lacks."""
    version = wheel.name.split("-")[1]
    stored = json.loads(STORED.read_text()) if STORED.is_file() else {}
    torch = Wheel(wheel)
    names: set[str] = set()
    for folder in distributions():
        if matches(floor(folder), version):
            names |= used_names(folder).keys()
    present = {name for name in names if torch.has(name)}
    stored[version] = sorted(present)
    STORED.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    rows = [
        f"torch {version}: {len(present)} names",
        *(f"missing: {name}" for name in sorted(names - present)),
    ]
    sys.stdout.write("\n".join(rows) + "\n")


def matches(floor: str | None, version: str) -> bool:
    """Is this the version of a floor, "2.8" being 2.8.0?"""
    return floor is not None and f"{floor}.0.0".split(".")[:3] == version.split(".")[:3]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
