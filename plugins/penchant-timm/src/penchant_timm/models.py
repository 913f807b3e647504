"""Builds models of timm for the input at hand."""

from __future__ import annotations

import difflib
from typing import Any

import penchant
from torch import nn

from penchant_timm.differentiability import make_twice_differentiable
from penchant_timm.importing import import_timm


def build(options: Any, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `timm`."""
    timm = import_timm()
    _check_name(timm, options.model)
    if len(shape) != 3:
        raise penchant.Error(
            f"timm's models need images (channels x height x width), found the shape {_written(shape)}"
        )
    network = _create(timm, options, shape, outputs)
    make_twice_differentiable(network)
    if options.head == "drawn":
        _draw_zero_head(network)
    return network


def _written(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _check_name(timm: Any, model: str) -> None:
    name = model.partition(".")[0]  # behind the dot is a tag, which chooses weights
    if timm.is_model(name):
        return
    known = timm.list_models()
    close = (
        difflib.get_close_matches(name, known, n=3) or [each for each in known if name in each][:3]
    )
    hint = (
        "did you mean " + " or ".join(map(repr, close)) + "?"
        if close
        else f"timm.list_models() names all {len(known)}"
    )
    raise penchant.Error(f"timm has no model {model!r}; {hint}")


def _create(timm: Any, options: Any, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """The model, told the size of images if it wants to know: some models do, and the others refuse the argument."""
    channels, height, width = shape
    sizes: list[dict[str, Any]] = [{"img_size": (height, width)}, {}]
    if height == width:
        sizes.insert(1, {"img_size": height})  # a few models take one side only
    for size in sizes:
        try:
            # no_jit: timm's own memory-saving activations cannot be differentiated twice
            return timm.create_model(
                options.model,
                pretrained=options.pretrained,
                in_chans=channels,
                num_classes=outputs,
                no_jit=True,
                **size,
            )
        except Exception as error:  # what a download raises depends on the library that does it
            if not (size and isinstance(error, TypeError)):
                raise _failure(options, shape, error) from error
    raise AssertionError("the last attempt, without a size, returns or raises")


def _failure(options: Any, shape: tuple[int, ...], error: Exception) -> penchant.Error:
    if options.pretrained:
        return penchant.Error(
            f"timm's {options.model} cannot be made with published weights (they may need a network): {_reason(error)}"
        )
    return penchant.Error(
        f"timm's {options.model} cannot be made for images of {_written(shape)}: {_reason(error)}"
    )


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip() or 'no reason given'}"


def _draw_zero_head(network: nn.Module) -> None:
    heads = network.get_classifier()
    for head in heads if isinstance(heads, (tuple, list)) else (heads,):
        for layer in head.modules():
            if isinstance(layer, (nn.Linear, nn.Conv2d)) and not layer.weight.any():
                layer.reset_parameters()
