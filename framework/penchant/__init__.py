"""Penchant measures what neural networks prefer. Everything public is listed in `__all__`."""

from __future__ import annotations

from typing import Any

from penchant.components import Architecture, Dataset, Estimator, Executor, Probe, option
from penchant.errors import Error
from penchant.hookspecs import hookimpl
from penchant.results import Quantity, Result
from penchant.roles import Role
from penchant.training import Training

__all__ = [
    "Architecture",
    "Dataset",
    "Error",
    "Estimator",
    "Executor",
    "Probe",
    "Quantity",
    "Result",
    "Role",
    "Training",
    "hookimpl",
    "measure",
    "option",
    "read",
    "run",
]


def __getattr__(name: str) -> Any:
    """`measure`, `run` and `read` are loaded when they are asked for: a plugin's declaration needs none of them."""
    if name in ("measure", "run", "read"):
        from penchant import api

        return getattr(api, name)
    raise AttributeError(f"module 'penchant' has no attribute {name!r}")
