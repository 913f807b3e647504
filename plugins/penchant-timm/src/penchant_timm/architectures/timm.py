"""Builds models of timm for the input at hand."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from types import ModuleType
from typing import cast

import penchant
from penchant_numerics.data import written
from torch import nn

from penchant_timm.arguments import parse_arguments
from penchant_timm.creation import create
from penchant_timm.declarations import Timm
from penchant_timm.differentiability import make_twice_differentiable
from penchant_timm.fitting import check_fit
from penchant_timm.importing import import_timm
from penchant_timm.weights import weights_missing


def build(options: Timm, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `timm`."""
    timm = import_timm()
    _check_name(timm, options.model)
    if len(shape) != 3:
        raise penchant.Error(
            "timm's models need images (channels x height x width), "
            f"found the shape {written(shape)}"
        )
    # Before the network is made, because timm's own messages say nothing about sizes.
    arguments = parse_arguments(options.arguments)
    check_fit(options.model, shape, options.arguments)
    try:
        network = create(
            timm, options.model, shape, outputs, pretrained=options.pretrained, arguments=arguments
        )
    except Exception as error:  # what a download raises depends on the library that does it
        raise _failure(timm, options, shape, error) from error
    make_twice_differentiable(network)
    if options.head == "drawn":
        _draw_zero_head(network)
    return network


def _check_name(timm: ModuleType, model: str) -> None:
    # Behind the dot is a tag, which chooses weights.
    name, _, _ = model.partition(".")
    if timm.is_model(name):
        return
    known = timm.list_models()
    close = difflib.get_close_matches(name, known, n=3)
    if not close:
        close = [each for each in known if name in each][:3]
    hint = f"timm.list_models() names all {len(known)}"
    if close:
        names = " or ".join(repr(each) for each in close)
        hint = f"did you mean {names}?"
    raise penchant.Error(f"timm has no model {model!r}; {hint}")


def _failure(
    timm: ModuleType, options: Timm, shape: tuple[int, ...], error: Exception
) -> penchant.Error:
    if options.pretrained:
        return weights_missing(timm, options.model, error)
    reason = f"{type(error).__name__}: {str(error).strip() or 'no reason given'}"
    return penchant.Error(
        f"timm's {options.model} cannot be made for images of {written(shape)}: {reason}"
    )


def _draw_zero_head(network: nn.Module) -> None:
    # Distilled models have two heads.
    classifier = cast("Callable[[], object]", network.get_classifier)
    heads = classifier()
    if not isinstance(heads, (tuple, list)):
        heads = (heads,)
    for head in heads:
        for layer in head.modules():
            if isinstance(layer, (nn.Linear, nn.Conv2d)) and not layer.weight.any():
                layer.reset_parameters()
