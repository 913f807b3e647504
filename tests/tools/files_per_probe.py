"""How many files and folders a reader opens to read each probe.

Counted are the probe's own folder and every module of its plugin that it imports, directly or not.
Declarations are not, nor rooms of `penchant_numerics`, which are documented.

`python tests/tools/files_per_probe.py` prints every probe and the medians.
"""

import ast
import statistics
from pathlib import Path

ROOT = Path(__file__).parents[2]


def imported(path: Path, modules: dict[str, Path]) -> set[Path]:
    """The modules of the same plugin that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
    return {modules[name] for name in names & modules.keys()}


def modules_of(source: Path) -> dict[str, Path]:
    """Every module of a plugin by its name, without packages and declarations."""
    modules = {}
    for path in source.rglob("*.py"):
        relative = path.relative_to(source.parent).with_suffix("")
        if path.name != "__init__.py" and "declarations" not in relative.parts:
            modules[".".join(relative.parts)] = path
    return modules


def files_of(probe: Path, modules: dict[str, Path]) -> set[Path]:
    """What is read with a probe: its file, its figures, and what these import."""
    ahead = {path for path in (probe, probe.with_name("figures.py")) if path.exists()}
    read: set[Path] = set()
    while ahead:
        path = ahead.pop()
        read.add(path)
        ahead |= imported(path, modules) - read
    return read


def main() -> None:
    counts = []
    for probe in sorted(ROOT.glob("plugins/*/src/penchant_*/*/probe.py")):
        source = probe.parents[1]
        files = files_of(probe, modules_of(source))
        folders = {path.parent for path in files}
        lines = sum(len(path.read_text().splitlines()) for path in files)
        counts.append((len(files), len(folders), lines))
        name = f"{source.name}/{probe.parent.name}"
        print(f"{name:60} {len(files):3} files {len(folders)} folders {lines:5} lines")
    files, folders, lines = (statistics.median(each) for each in zip(*counts))
    print(f"{len(counts)} probes, median: {files} files, {folders} folders, {lines} lines")


if __name__ == "__main__":
    main()
