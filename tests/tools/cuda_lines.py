"""Code that runs on CUDA only, and which test reaches it: a plugin of pytest.

It is found in the sources: what stands under `device.type == "cuda"`, `torch.cuda.is_available()`
and the like. `make test-cuda` prints it as a table. Reached is an expression of which an
instruction ran, so that `a if device.type == "cuda" else b` counts only if `a` was evaluated.

The file that `PENCHANT_CUDA_LINES` names receives one line for each expression that is reached.
(PYTEST_DONT_REWRITE: `cuda_verdict.py` imports it before pytest does.)
"""

from __future__ import annotations

import ast
import os
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE = "PENCHANT_CUDA_LINES"
# Functions of `torch.cuda` that are called without a device as well.
ANYWHERE = ("is_available", "device_count", "get_arch_list", "_is_in_bad_fork")
HEAD = "code behind cuda, and the first test that reaches it"


class Spot(NamedTuple):
    """A statement or expression that runs on CUDA only, from its first to its last character."""

    path: str
    start: tuple[int, int]
    end: tuple[int, int]

    def __str__(self) -> str:
        line, column = self.start
        text = (ROOT / self.path).read_text().splitlines()[line - 1][column:]
        name = self.path.rpartition("/src/")[2].removeprefix("framework/")
        return f"{name}:{line}:{column} {text.strip()}"


def spots() -> list[Spot]:
    """All of them, but those of the tests of plugins."""
    folders = [ROOT / "framework", *(ROOT / "plugins").glob("*/src")]
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            name = path.relative_to(ROOT)
            # What `pip install` leaves in `build` is a copy.
            if not {"penchant_testing", "build"} & set(name.parts):
                found += [_spot(str(name), node) for node in behind_cuda(path.read_text())]
    return found


def _spot(path: str, node: Any) -> Spot:
    start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return Spot(path, start, end)


def behind_cuda(source: str) -> list[ast.AST]:
    """Statements and expressions of a source that run on CUDA only.

    >>> [node] = behind_cuda("x = a if device.type == 'cuda' else b")
    >>> ast.unparse(node)
    'a'
    """
    tree = ast.parse(source)
    found: dict[tuple[int, int], ast.AST] = {}
    for parent in ast.walk(tree):
        for node in _branches(parent):
            found.setdefault((node.lineno, node.col_offset), node)
    return [found[position] for position in sorted(found)]


def _branches(parent: ast.AST) -> Iterator[Any]:
    """What a node has for CUDA only."""
    if isinstance(parent, ast.IfExp):
        yield from [(), (parent.body,), (parent.orelse,)][_sign(parent.test)]
    if isinstance(parent, ast.If):
        for statement in [(), parent.body, parent.orelse][_sign(parent.test)]:
            yield from _inside(statement)
    # After `if device.type != "cuda": return ...` come statements for CUDA.
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, None)
        if isinstance(block, list):
            for statement in _after_exit(block):
                yield from _inside(statement)
    function = ast.unparse(parent.func) if isinstance(parent, ast.Call) else ""
    if function.startswith("torch.cuda.") and not function.endswith(ANYWHERE):
        yield parent


def _inside(statement: ast.stmt) -> Iterator[Any]:
    """A statement, and those that it consists of."""
    if not isinstance(statement, ast.If):
        yield statement
        return
    yield statement.test
    for each in [] if _sign(statement.test) < 0 else [*statement.body, *statement.orelse]:
        yield from _inside(each)


def _after_exit(block: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for number, each in enumerate(block):
        elsewhere = isinstance(each, ast.If) and _sign(each.test) < 0 and not each.orelse
        if elsewhere and isinstance(each.body[-1], (ast.Return, ast.Raise, ast.Continue)):
            yield from block[number + 1 :]
            return


def _sign(test: ast.expr) -> int:
    """1 where a test holds on CUDA only, -1 where it holds elsewhere only, else 0."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return -_sign(test.operand)
    if isinstance(test, ast.BoolOp):
        signs = {_sign(each) for each in test.values}
        return 1 if isinstance(test.op, ast.And) and 1 in signs else 0
    if isinstance(test, ast.Compare):
        named = [each for each in [test.left, *test.comparators] if _is_cuda(each)]
        kind = test.ops[0]
        if not named or not isinstance(kind, (ast.Eq, ast.NotEq)):
            return 0
        return 1 if isinstance(kind, ast.Eq) else -1
    text = ast.unparse(test)
    known = text.endswith((".is_cuda", "cuda.is_available()", ".startswith('cuda')"))
    return int(known)


def _is_cuda(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == "cuda"


class Tracer:
    """Notes the first test that reaches a spot."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.test = "collection"
        self._missing: dict[str, set[Spot]] = {}
        for spot in spots():
            self._missing.setdefault(str(ROOT / spot.path), set()).add(spot)
        self._positions: dict[types.CodeType, list[Any]] = {}

    def call(self, frame: types.FrameType, event: str, argument: Any) -> Any:
        """Called by Python for every function; those without a missing spot are not followed."""
        code = frame.f_code
        missing = self._missing.get(code.co_filename)
        if not missing:
            return None
        if code not in self._positions:
            self._positions[code] = list(code.co_positions())
        lines = [line for line, *_ in self._positions[code] if line]
        first, last = min(lines), max(lines)
        if not any(first <= spot.start[0] <= last for spot in missing):
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame: types.FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            line, _, column, _ = self._positions[frame.f_code][frame.f_lasti // 2]
            if line is not None and column is not None:
                self._visit(frame.f_code.co_filename, (line, column))
        return self._step

    def _visit(self, path: str, position: tuple[int, int]) -> None:
        missing = self._missing[path]
        reached = {spot for spot in missing if spot.start <= position < spot.end}
        for spot in reached:
            with self.file.open("a") as file:
                file.write(f"{spot}\t{self.test}\n")
        missing -= reached


_tracer: list[Tracer] = []


def pytest_configure(config: Any) -> None:
    """Start to follow this process."""
    if os.environ.get(FILE):
        _tracer.append(Tracer(Path(os.environ[FILE])))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: Any, nextitem: Any) -> Iterator[Any]:
    """Follow a test."""
    if not _tracer:
        return (yield)
    _tracer[0].test = item.nodeid
    before = sys.gettrace()
    sys.settrace(_tracer[0].call)
    try:
        return (yield)
    finally:
        sys.settrace(before)


def table(file: Path) -> tuple[list[str], int]:
    """A line for each spot with the first test that reached it, and how many none reached."""
    reached: dict[str, str] = {}
    for line in file.read_text().splitlines() if file.is_file() else []:
        name, _, test = line.partition("\t")
        reached.setdefault(name, test)
    names = [str(spot) for spot in spots()]
    lines = [f"{name}\n    {reached.get(name, 'NO TEST')}" for name in names]
    return lines, sum(name not in reached for name in names)


if __name__ == "__main__":
    for each in spots():
        sys.stdout.write(f"{each}\n")
