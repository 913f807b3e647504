"""LeNet."""

from __future__ import annotations

from typing import Any

from torch import nn

from penchant_architectures.initialization import initialise
from penchant_architectures.layers import Layers, pooling
from penchant_architectures.shapes import image

_CHANNELS = (6, 16)
_KERNEL = 5


def build(options: Any, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `lenet`."""
    halving = options.pooling != "none"
    channels, height, width = image(shape, "lenet", at_least=16 if halving else 9)
    layers = Layers(options)
    modules: list[nn.Module] = []
    for wanted in _CHANNELS:
        modules += [*layers.convolution_stage(channels, wanted, _KERNEL), *pooling(options.pooling)]
        channels, height, width = wanted, _shrunk(height, halving), _shrunk(width, halving)
    modules += [
        nn.Flatten(),
        *layers.perceptron(channels * height * width, options.hidden, outputs),
    ]
    return initialise(nn.Sequential(*modules), options)


def _shrunk(side: int, halving: bool) -> int:
    """The side of an image behind a convolution without padding and, perhaps, a pooling."""
    side -= _KERNEL - 1
    return side // 2 if halving else side
