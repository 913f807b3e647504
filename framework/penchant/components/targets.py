"""Targets: functions that a declaration names as `package.module:function`, loaded when used."""

import importlib
import inspect
import operator
import pickle
import re
from collections.abc import Callable
from typing import Any, cast

from penchant.errors import Error

TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def resolve(target: object, what: str) -> Callable[..., Any]:
    """The function behind a target: `package.module:function`, or the function itself."""
    if inspect.ismethod(target) and hasattr(target.__self__, "target"):
        # A function that is a class attribute became a method of the instance.
        target = target.__func__
    if callable(target):
        return cast("Callable[..., Any]", target)
    text = str(target)
    if not TARGET.fullmatch(text):
        raise Error(f"the target of {what} must be 'package.module:function', found {target!r}")
    module, _, name = text.partition(":")
    try:
        found = operator.attrgetter(name)(importlib.import_module(module))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may raise anything when it is imported
        problem = str(error) or type(error).__name__
        raise Error(f"the target {text!r} of {what} cannot be loaded: {problem}") from error
    if not callable(found):
        kind = type(found).__name__
        raise Error(f"the target {target!r} of {what} must be callable, found {kind}")
    return cast("Callable[..., Any]", found)


def check_parameters(function: Callable[..., Any], expected: tuple[str, ...], what: str) -> None:
    """Refuse a target that does not begin with these parameters; `what` is the component."""
    names = tuple(inspect.signature(function).parameters)
    # It may have more parameters, with defaults.
    if names[: len(expected)] != expected:
        raise Error(
            f"the target of {what} must take ({', '.join(expected)}), found ({', '.join(names)})"
        )


def sendable(value: object) -> bool:
    """Can another process import this by its name, or unpickle this module?"""
    name = getattr(value, "__qualname__", "")
    if not name:
        return hasattr(value, "state_dict") and _is_picklable(value)
    if value.__module__ == "__main__":
        return False
    try:
        # A decorated function may have the name of the function that it replaced.
        return resolve(f"{value.__module__}:{name}", name) is value
    except Error:
        return False


def _is_picklable(network: object) -> bool:
    """Can another process unpickle this module? A class of a script is not found there."""
    try:
        return b"__main__" not in pickle.dumps(network)
    except Exception:  # whatever a user's module raises when pickled
        return False
