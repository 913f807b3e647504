"""VGG networks for small images."""

from __future__ import annotations

from typing import Any

from torch import nn

from penchant_architectures.initialization import (
    convolutions_by_fan_out,
    initialise,
    kaiming_normal,
)
from penchant_architectures.layers import Layers, pooling
from penchant_architectures.shapes import image

_CONVOLUTIONS_11 = (1, 1, 2, 2, 2)
_CONVOLUTIONS_19 = (2, 2, 4, 4, 4)
_WIDENING = (1, 2, 4, 8, 8)  # channels of each stage, in units of those of the first


def build_vgg11(options: Any, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `vgg11`."""
    network = _network(
        options,
        shape,
        outputs,
        _CONVOLUTIONS_11,
        base=64,
        classifier=options.classifier,
        name="vgg11",
    )
    return initialise(network, options, convolutions_by_fan_out)


def build_vgg19(options: Any, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `vgg19`."""
    network = _network(
        options, shape, outputs, _CONVOLUTIONS_19, base=options.width, classifier=(), name="vgg19"
    )
    return initialise(network, options, kaiming_normal)


def _network(
    options: Any,
    shape: tuple[int, ...],
    outputs: int,
    convolutions: tuple[int, ...],
    *,
    base: int,
    classifier: tuple[int, ...],
    name: str,
) -> nn.Module:
    shrink = 1 if options.pooling == "none" else 2 ** len(convolutions)
    channels, height, width = image(shape, name, at_least=shrink)
    layers = Layers(options)
    modules: list[nn.Module] = []
    for count, factor in zip(convolutions, _WIDENING):
        for _ in range(count):
            modules += layers.convolution_stage(channels, base * factor, 3, padding=1)
            channels = base * factor
        modules += pooling(options.pooling)
    inputs = channels * (height // shrink) * (width // shrink)
    return nn.Sequential(*modules, nn.Flatten(), *layers.perceptron(inputs, classifier, outputs))
