"""Makes a model of timm for images of any size: some models want to know it, others refuse."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from torch import nn


def create(
    timm: ModuleType,
    model: str,
    shape: tuple[int, ...],
    outputs: int,
    *,
    pretrained: bool = False,
    arguments: Mapping[str, Any] | None = None,
) -> nn.Module:
    """The model as timm makes it.

    Args:
        timm: The module.
        model: Name, perhaps with a tag.
        shape: Channels, height and width of an image.
        outputs: Outputs of the network.
        pretrained: Load published weights.
        arguments: Further arguments of `timm.create_model`.

    Returns:
        The network.
    """
    channels, height, width = shape
    settings: dict[str, Any] = {
        "pretrained": pretrained,
        "in_chans": channels,
        "num_classes": outputs,
        # timm's own memory-saving activations cannot be differentiated twice.
        "no_jit": True,
        **(arguments or {}),
    }
    # The form that most models take first.
    sizes: list[Any] = [(height, width)]
    if height == width:
        sizes.append(height)  # a few models take one side only
    for size in sizes:
        try:
            network: nn.Module = timm.create_model(model, img_size=size, **settings)
            return network
        except TypeError:
            # It does not take this argument, or not in this form.
            continue
    made: nn.Module = timm.create_model(model, **settings)
    return made
