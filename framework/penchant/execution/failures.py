"""Failures: what an error says to the user, and the line of an author's code that it came from."""

import sys
import traceback
from pathlib import Path
from typing import Any

import attrs
from penchant.components.component import Component
from penchant.errors import Error


@attrs.frozen
class Failure:
    """Why a job has no result."""

    text: str  # the reason in a sentence
    details: str | None = None  # the traceback, where it helps


def crashed(what: str, times: int, how: str) -> str:
    """Why a job or shard failed that crashed its workers."""
    text = f"{what} crashed its worker {times} times (last: {how})"
    return f"{text}. If memory ran out, use fewer workers."


class TimeLimitError(BaseException):
    """A job took longer than `time_limit`; no probe can catch it by accident."""


def failure_of(problem: BaseException, component: type[Component]) -> Failure:
    """What an error in the code of a component says to the user."""
    details = "".join(traceback.format_exception(problem))
    if isinstance(problem, (Error, TimeLimitError)):
        # A mistake that the user can correct needs no traceback, unless her own code raised it.
        cause = problem.__cause__
        return Failure(str(problem), details if cause and not isinstance(cause, Error) else None)
    if getattr(problem, "says_enough", False):  # a refusal of the numerics
        return Failure(str(problem), details)
    text = f"{type(problem).__name__}: {problem}"
    line = authors_line(problem, component.target)
    return Failure(f"{text} (at {line})" if line else text, details)


def authors_line(problem: BaseException, target: Any) -> str:
    """The last line of the package, or script, of a function on the way to an error.

    Such as "sharpness/probe.py:19"; empty where the error came from elsewhere.
    """
    if isinstance(target, str):
        module = target.partition(":")[0]
    else:
        module = getattr(target, "wrapped", target).__module__
    # The outermost package, or the script where there is none.
    names = [module.partition(".")[0], module]
    files = [getattr(sys.modules.get(name), "__file__", None) for name in names]
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
