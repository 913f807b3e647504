"""ResNet20 for small images."""

from torch import nn

from penchant_architectures.architectures.residual import residual_network
from penchant_architectures.declarations.convolutional import ResNet20

WIDTHS = (16, 32, 64)
BLOCKS = 3  # a stage


def build(options: ResNet20, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `resnet20`."""
    return residual_network(options, shape, outputs, widths=WIDTHS, blocks=BLOCKS)
