"""Residual networks for small images: a stem and stages of basic blocks."""

import torch
from torch import nn
from torch.nn import functional

from penchant_architectures.architectures.images import image
from penchant_architectures.architectures.initialization import initialise
from penchant_architectures.architectures.layers import GlobalAverage, Layers
from penchant_architectures.declarations.convolutional import ResNet18, ResNet20


class PaddedShortcut(nn.Module):
    """A shortcut without parameters: every second position, and zeros for channels that are new."""

    def __init__(self, stride: int, extra: int) -> None:
        super().__init__()
        self.stride, self.extra = stride, extra

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The positions that stay, between channels of zeros."""
        # Half of the new channels in front of the old ones, half behind.
        before = self.extra // 2
        after = self.extra - before
        strided = x[..., :: self.stride, :: self.stride]
        padding = (0, 0, 0, 0, before, after)
        return functional.pad(strided, padding)


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut, and an activation of their sum."""

    def __init__(
        self, layers: Layers, inputs: int, outputs: int, *, stride: int, shortcut: str
    ) -> None:
        super().__init__()
        # Only the first convolution changes sides and channels.
        self.residual = nn.Sequential(
            *layers.convolution_stage(inputs, outputs, 3, stride=stride, padding=1),
            layers.convolution(outputs, outputs, 3, padding=1),
            *layers.normalization(outputs),
        )
        self.shortcut = _shortcut(layers, inputs, outputs, stride, shortcut)
        self.activation = layers.activation()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The activation of residual and shortcut together."""
        both = self.residual(x) + self.shortcut(x)
        outputs: torch.Tensor = self.activation(both)
        return outputs


def _shortcut(layers: Layers, inputs: int, outputs: int, stride: int, kind: str) -> nn.Module:
    # Where nothing changes its size, the shortcut is the input itself.
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    if kind == "padding":
        return PaddedShortcut(stride, outputs - inputs)
    return nn.Sequential(
        layers.convolution(inputs, outputs, 1, stride=stride), *layers.normalization(outputs)
    )


def residual_network(
    options: ResNet18 | ResNet20,
    shape: tuple[int, ...],
    outputs: int,
    *,
    widths: tuple[int, ...],
    blocks: int,
) -> nn.Module:
    """A stem, stages of basic blocks, and a linear layer.

    Args:
        options: Of the architecture; its name is for messages.
        shape: Shape of an image.
        outputs: Outputs of the network.
        widths: Channels of each stage; every stage but the first halves the image.
        blocks: Basic blocks a stage.

    Returns:
        The network.
    """
    channels, height, width = image(shape, options.name)
    layers = Layers(options)
    # The stem keeps the size of the image.
    modules = layers.convolution_stage(channels, widths[0], 3, padding=1)
    inputs = widths[0]
    for stage, channels in enumerate(widths):
        for block in range(blocks):
            # The first block of a stage halves the image.
            stride = 2 if stage > 0 and block == 0 else 1
            modules.append(
                BasicBlock(layers, inputs, channels, stride=stride, shortcut=options.shortcut)
            )
            inputs = channels
            height, width = -(-height // stride), -(-width // stride)
    # The head sees the mean of every channel, or every position.
    if options.pooling == "average":
        modules.append(GlobalAverage())
        features = inputs
    else:
        modules.append(nn.Flatten())
        features = inputs * height * width
    modules.append(layers.linear(features, outputs))
    return initialise(nn.Sequential(*modules), options)
