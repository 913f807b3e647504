"""Imports timm, also where torchvision's compiled operators do not load."""

from __future__ import annotations

import importlib
from types import ModuleType

import penchant
import torch

# Both as torchvision declares them; its Python code asks whether they exist, timm never calls
# them.
SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
# A library that is collected takes its declarations with it.
_declared: list[torch.library.Library] = []


def import_timm() -> ModuleType:
    """The module timm.

    timm imports torchvision, whose compiled operators do not load next to a torch of another build.
    Only then are the operators that its import asks for declared, without code, and only those that
    are missing.
    """
    try:
        return importlib.import_module("timm")
    except RuntimeError as error:
        if not _names_a_missing_operator(error):
            raise penchant.Error(f"timm cannot be imported: {error}") from error
    except ImportError as error:
        raise penchant.Error(f"timm cannot be imported: {error}") from error
    # Without a warning: timm calls none of them, so that no number depends on it.
    _declare_missing_operators()
    return importlib.import_module("timm")


def _names_a_missing_operator(error: RuntimeError) -> bool:
    text = str(error)
    return any(f"torchvision::{name} does not exist" in text for name in SCHEMAS)


def _declare_missing_operators() -> None:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name, schema in SCHEMAS.items():
        if not hasattr(torch.ops.torchvision, name):
            library.define(schema)
    _declared.append(library)
