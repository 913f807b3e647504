"""Docstrings that serve the caller: public functions explain their parameters."""

import ast

import penchant
import pytest

FOLDERS = ("framework/penchant", "framework/penchant_numerics")
FEW = 2  # parameters that a sentence can explain


def public_functions(path):
    """Functions and methods of a module that others may call."""
    waiting = [("", ast.parse(path.read_text()))]
    while waiting:
        owner, parent = waiting.pop()
        for node in parent.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                waiting.append((f"{node.name}.", node))
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield f"{owner}{node.name}", node


def parameters(function):
    """Names of the parameters a caller fills in."""
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls", "options", "context")]


def is_part_of_a_protocol(function):
    """Is it a command, a hook, an overload or a method without a body?"""
    marks = {ast.unparse(mark).partition("(")[0] for mark in function.decorator_list}
    if marks & {"main.command", "hookimpl", "hookspec", "Role", "overload"}:
        return True
    return all(isinstance(part, ast.Expr) for part in function.body)


@pytest.mark.parametrize("folder", FOLDERS)
def test_parameters_and_returns_are_explained(root, folder):
    lacking = []
    for path in sorted((root / folder).rglob("*.py")):
        for name, function in public_functions(path):
            # Of the kernel only this is public; the numerics are public as a whole.
            if folder == "framework/penchant" and name.partition(".")[0] not in penchant.__all__:
                continue
            if len(parameters(function)) <= FEW or is_part_of_a_protocol(function):
                continue
            text = ast.get_docstring(function) or ""
            returns = function.returns is not None and ast.unparse(function.returns) != "None"
            explained = "Args:" in text
            answered = not returns or "Returns:" in text or "Yields:" in text
            if not explained or not answered:
                lacking.append(f"{path.relative_to(root)}:{function.lineno} {name}")
    assert not lacking, "\n".join(lacking)
