"""ResNet18 for small images."""

from torch import nn

from penchant_architectures.architectures.residual import residual_network
from penchant_architectures.declarations.convolutional import ResNet18

WIDENING = (1, 2, 4, 8)  # channels of each stage, in units of those of the first
BLOCKS = 2  # a stage


def build(options: ResNet18, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `resnet18`."""
    return residual_network(
        options,
        shape,
        outputs,
        widths=tuple(options.width * factor for factor in WIDENING),
        blocks=BLOCKS,
    )
