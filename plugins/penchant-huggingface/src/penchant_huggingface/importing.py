"""Imports transformers, also where torchvision's compiled operators do not load."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from types import ModuleType

import penchant
import torch

# As torchvision declares them: its Python code asks whether they exist, no model here calls them.
SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
_declared: list[torch.library.Library] = []  # a library that is collected takes its schemas along


def import_transformers() -> ModuleType:
    """The module transformers, with its models.

    Its models import torchvision where that is installed, whose compiled operators do not load
    next to a torch of another build. Only then are the operators that the import asks for declared,
    without code.
    """
    try:
        importlib.import_module("torchvision")
    except ImportError:
        pass  # models of texts do not need it
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise penchant.Error(f"torchvision cannot be imported: {error}") from error
        _declare_missing_operators()
    try:
        transformers = importlib.import_module("transformers")
        importlib.import_module("transformers.modeling_utils")
    except ImportError as error:
        raise penchant.Error(f"transformers cannot be imported: {error}") from error
    return transformers


@contextlib.contextmanager
def without_bars() -> Iterator[None]:
    """Without the bars of transformers, one for each time that weights are loaded."""
    logging = importlib.import_module("transformers.utils.logging")
    if not logging.is_progress_bar_enabled():
        yield
        return
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.enable_progress_bar()


def _declare_missing_operators() -> None:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name, schema in SCHEMAS.items():
        if not hasattr(torch.ops.torchvision, name):
            library.define(schema)
    _declared.append(library)
