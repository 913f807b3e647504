"""Residual networks for small images."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from penchant_architectures.initialization import initialise
from penchant_architectures.layers import GlobalAverage, Layers
from penchant_architectures.shapes import image


class PaddedShortcut(nn.Module):
    """Every second position, and zeros for the channels that are new: a shortcut without parameters."""

    def __init__(self, stride: int, extra: int) -> None:
        super().__init__()
        self.stride, self.extra = stride, extra

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = self.extra // 2
        return functional.pad(
            x[..., :: self.stride, :: self.stride], (0, 0, 0, 0, before, self.extra - before)
        )


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut, and an activation of their sum."""

    def __init__(
        self, layers: Layers, inputs: int, outputs: int, *, stride: int, shortcut: str
    ) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            *layers.convolution_stage(inputs, outputs, 3, stride=stride, padding=1),
            layers.convolution(outputs, outputs, 3, padding=1),
            *layers.normalization(outputs),
        )
        self.shortcut = _shortcut(layers, inputs, outputs, stride, shortcut)
        self.activation = layers.activation()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activation(self.residual(x) + self.shortcut(x))


def _shortcut(layers: Layers, inputs: int, outputs: int, stride: int, kind: str) -> nn.Module:
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    if kind == "padding":
        return PaddedShortcut(stride, outputs - inputs)
    return nn.Sequential(
        layers.convolution(inputs, outputs, 1, stride=stride), *layers.normalization(outputs)
    )


def build_resnet18(options: Any, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `resnet18`."""
    return _network(
        options, image(shape, "resnet18"), outputs, widths=(64, 128, 256, 512), blocks=2
    )


def build_resnet20(options: Any, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `resnet20`."""
    return _network(options, image(shape, "resnet20"), outputs, widths=(16, 32, 64), blocks=3)


def _network(
    options: Any, shape: tuple[int, int, int], outputs: int, *, widths: tuple[int, ...], blocks: int
) -> nn.Module:
    """A stem and stages of basic blocks; every stage but the first halves the image."""
    channels, height, width = shape
    layers = Layers(options)
    modules = layers.convolution_stage(channels, widths[0], 3, padding=1)
    channels = widths[0]
    for stage, wanted in enumerate(widths):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            modules.append(
                BasicBlock(layers, channels, wanted, stride=stride, shortcut=options.shortcut)
            )
            channels, height, width = wanted, -(-height // stride), -(-width // stride)
    inputs = channels if options.pooling == "average" else channels * height * width
    head = GlobalAverage() if options.pooling == "average" else nn.Flatten()
    return initialise(nn.Sequential(*modules, head, layers.linear(inputs, outputs)), options)
