"""Where in the code of a plugin or a script an error came from."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from penchant.components.component import Component


def authors_line(problem: BaseException, component: type[Component]) -> str:
    """The last line of the component's own code on the way to an error, as `file:line`.

    Args:
        problem: The error.
        component: Whose package, or script, is looked for in the traceback.

    Returns:
        Such as "probes/sharpness.py:19"; empty where the error came from elsewhere.
    """
    target = component.target
    if isinstance(target, str):
        module = target.partition(":")[0]
    else:
        module = getattr(target, "wrapped", target).__module__
    # The package, or the script where there is none.
    files = [getattr(sys.modules.get(name), "__file__", None) for name in _packages(module)]
    file = next(filter(None, files), None)
    if file is None:
        return ""
    root = Path(file).resolve()
    # A package is a folder, a script a file.
    root = root.parent if root.name == "__init__.py" else root
    for frame in reversed(traceback.extract_tb(problem.__traceback__)):
        path = Path(frame.filename).resolve()
        if path.is_relative_to(root):
            name = path.name if path == root else path.relative_to(root)
            return f"{name}:{frame.lineno}"
    return ""


def _packages(module: str) -> list[str]:
    """The outermost package of a module, and the module itself."""
    return [module.partition(".")[0], module]


def described(problem: BaseException, line: str) -> str:
    """An error in one line: its type, its message, and where it came from if that is known."""
    text = f"{type(problem).__name__}: {problem}"
    return f"{text} (at {line})" if line else text
