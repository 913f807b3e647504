"""Functions of other distributions: loaded when used; a missing package is named."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from penchant.errors import Error


def is_installed(target: str) -> bool:
    """Is the package of `module:name` installed?"""
    return importlib.util.find_spec(_package(target)) is not None


def extra(target: str) -> Any:
    """The function or class `module:name` of another distribution.

    Raises:
        Error: The distribution is not installed; the message says how to install it.
    """
    module, _, name = target.partition(":")
    if not is_installed(target):
        distribution = _package(target).replace("_", "-")
        hint = f"pip install {distribution}"
        raise Error(f"this needs {distribution}, which is not installed: {hint}")
    return getattr(importlib.import_module(module), name)


def _package(target: str) -> str:
    return target.partition(":")[0].partition(".")[0]
