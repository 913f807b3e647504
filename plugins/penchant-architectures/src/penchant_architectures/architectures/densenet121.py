"""DenseNet121 for small images."""

import torch
from torch import nn

from penchant_architectures.architectures.images import image
from penchant_architectures.architectures.initialization import initialise
from penchant_architectures.architectures.layers import GlobalAverage, Layers, pooling
from penchant_architectures.declarations.convolutional import DenseNet121

BLOCKS = (6, 12, 24, 16)  # dense layers in each
TRANSITIONS = len(BLOCKS) - 1


class DenseLayer(nn.Module):
    """Adds `growth` channels, made from all channels so far, in front of them."""

    def __init__(self, layers: Layers, inputs: int, growth: int) -> None:
        super().__init__()
        bottleneck = 4 * growth
        self.growth = nn.Sequential(
            *_before(layers, inputs),
            layers.convolution(inputs, bottleneck, 1),
            *_before(layers, bottleneck),
            layers.convolution(bottleneck, growth, 3, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The new channels, then the old ones."""
        new = self.growth(x)
        return torch.cat([new, x], dim=1)


def _before(layers: Layers, channels: int) -> list[nn.Module]:
    """What stands in front of a convolution: normalization and activation."""
    normalization = layers.normalization(channels)
    return [*normalization, layers.activation()]


def build(options: DenseNet121, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `densenet121`."""
    smallest = 1 if options.pooling == "none" else 2**TRANSITIONS
    inputs, _, _ = image(shape, "densenet121", at_least=smallest)
    layers = Layers(options)
    # The stem keeps the size of the image.
    channels = options.width
    growth = options.width // 2
    modules: list[nn.Module] = [layers.convolution(inputs, channels, 3, padding=1)]
    for index, count in enumerate(BLOCKS):
        for _ in range(count):
            modules.append(DenseLayer(layers, channels, growth))
            channels += growth
        modules += _before(layers, channels)
        # Between blocks a transition halves channels and, with pooling, sides.
        if index < TRANSITIONS:
            modules.append(layers.convolution(channels, channels // 2, 1))
            modules += pooling(options.pooling)
            channels //= 2
    # One number a channel is read out.
    modules.append(GlobalAverage())
    modules.append(layers.linear(channels, outputs))
    return initialise(nn.Sequential(*modules), options)
