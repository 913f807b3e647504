"""Penchant measures what neural networks prefer. Everything public is listed in `__all__`."""

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penchant.api import card, compare, measure, read, run
    from penchant.components.card import Card
    from penchant.components.component import Architecture, Dataset, Estimator, Executor, Probe
    from penchant.components.headline import Headline
    from penchant.components.hookspecs import hookimpl
    from penchant.components.options import option
    from penchant.components.roles import Role
    from penchant.components.training import Training
    from penchant.errors import Error
    from penchant.execution.job.context import Context
    from penchant.probe_function import probe
    from penchant.results.quantities import Quantity
    from penchant.results.result import Result
    from penchant.results.tables import Table

__all__ = [
    "Architecture",
    "Card",
    "Context",
    "Dataset",
    "Error",
    "Estimator",
    "Executor",
    "Headline",
    "Probe",
    "Quantity",
    "Result",
    "Role",
    "Table",
    "Training",
    "card",
    "compare",
    "hookimpl",
    "measure",
    "option",
    "probe",
    "read",
    "run",
]

# Loaded on first use: a plugin's declaration needs few of them.
_LATER = {
    "Architecture": "penchant.components.component",
    "Card": "penchant.components.card",
    "Context": "penchant.execution.job.context",
    "Dataset": "penchant.components.component",
    "Error": "penchant.errors",
    "Estimator": "penchant.components.component",
    "Executor": "penchant.components.component",
    "Headline": "penchant.components.headline",
    "Probe": "penchant.components.component",
    "Quantity": "penchant.results.quantities",
    "Result": "penchant.results.result",
    "Role": "penchant.components.roles",
    "Table": "penchant.results.tables",
    "Training": "penchant.components.training",
    "card": "penchant.api",
    "compare": "penchant.api",
    "hookimpl": "penchant.components.hookspecs",
    "measure": "penchant.api",
    "option": "penchant.components.options",
    "probe": "penchant.probe_function",
    "read": "penchant.api",
    "run": "penchant.api",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("penchant")
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'penchant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
