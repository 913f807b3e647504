"""Numerics that several plugins share; knows torch, not the kernel.

The most frequent names are available here, and loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from penchant_numerics.refusal import Refusal

if TYPE_CHECKING:
    from penchant_numerics.curvature import GaussNewton, Hessian

__all__ = ["GaussNewton", "Hessian", "Refusal"]

_LATER = {
    "GaussNewton": "penchant_numerics.curvature.gauss_newton",
    "Hessian": "penchant_numerics.curvature.hessian",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'penchant_numerics' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
