"""DenseNet121 for small images."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from penchant_architectures.initialization import initialise
from penchant_architectures.layers import GlobalAverage, Layers, pooling
from penchant_architectures.shapes import image

_BLOCKS = (6, 12, 24, 16)
_GROWTH = 32


class DenseLayer(nn.Module):
    """Adds `_GROWTH` channels, made from all channels so far, in front of them."""

    def __init__(self, layers: Layers, inputs: int) -> None:
        super().__init__()
        bottleneck = 4 * _GROWTH
        self.growth = nn.Sequential(
            *_before(layers, inputs),
            layers.convolution(inputs, bottleneck, 1),
            *_before(layers, bottleneck),
            layers.convolution(bottleneck, _GROWTH, 3, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.growth(x), x], dim=1)


def _before(layers: Layers, channels: int) -> list[nn.Module]:
    """What stands in front of a convolution: normalization and activation."""
    return [*layers.normalization(channels), layers.activation()]


def build(options: Any, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `densenet121`."""
    transitions = len(_BLOCKS) - 1
    inputs, _, _ = image(
        shape, "densenet121", at_least=1 if options.pooling == "none" else 2**transitions
    )
    layers = Layers(options)
    channels = 2 * _GROWTH
    modules: list[nn.Module] = [layers.convolution(inputs, channels, 3, padding=1)]
    for index, count in enumerate(_BLOCKS):
        for _ in range(count):
            modules.append(DenseLayer(layers, channels))
            channels += _GROWTH
        modules += _before(layers, channels)
        if index < transitions:
            modules += [layers.convolution(channels, channels // 2, 1), *pooling(options.pooling)]
            channels //= 2
    return initialise(
        nn.Sequential(*modules, GlobalAverage(), layers.linear(channels, outputs)), options
    )
