"""Penchant measures what neural networks prefer. Everything public is listed in `__all__`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from penchant.components.component import Architecture, Dataset, Estimator, Executor, Probe
from penchant.components.hookspecs import hookimpl
from penchant.components.options import option
from penchant.components.roles import Role
from penchant.components.training import Training
from penchant.errors import Error
from penchant.probe_function import probe

if TYPE_CHECKING:
    from penchant.api import compare, measure, read, run
    from penchant.execution.context import Context
    from penchant.results.quantities import Quantity
    from penchant.results.result import Result

__all__ = [
    "Architecture",
    "Context",
    "Dataset",
    "Error",
    "Estimator",
    "Executor",
    "Probe",
    "Quantity",
    "Result",
    "Role",
    "Training",
    "compare",
    "hookimpl",
    "measure",
    "option",
    "probe",
    "read",
    "run",
]

# Loaded on first use: a plugin's declaration needs none of them.
_LATER = {
    "Context": "penchant.execution.context",
    "Quantity": "penchant.results.quantities",
    "Result": "penchant.results.result",
    "compare": "penchant.api",
    "measure": "penchant.api",
    "read": "penchant.api",
    "run": "penchant.api",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'penchant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
