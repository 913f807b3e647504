"""Functions of other distributions: loaded when used; a missing package is named."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from penchant.errors import Error


def is_installed(package: str) -> bool:
    """Is there such a package?"""
    return importlib.util.find_spec(package) is not None


def extra(target: str) -> Any:
    """The function or class `package.module:name` of another distribution.

    Raises:
        Error: The distribution is not installed; the message says how to install it.
    """
    module, _, name = target.partition(":")
    package, _, _ = module.partition(".")
    if not is_installed(package):
        distribution = package.replace("_", "-")
        hint = f"pip install {distribution}"
        raise Error(f"this needs {distribution}, which is not installed: {hint}")
    return getattr(importlib.import_module(module), name)
