"""ResNet18 for small images."""

from __future__ import annotations

from torch import nn

from penchant_architectures.architectures.residual import residual_network
from penchant_architectures.declarations.convolutional import ResNet18

WIDTHS = (64, 128, 256, 512)
BLOCKS = 2  # a stage


def build(
    options: ResNet18,
    shape: tuple[int, ...],
    outputs: int,
) -> nn.Module:
    """Target of the architecture `resnet18`."""
    return residual_network(
        options,
        shape,
        outputs,
        widths=WIDTHS,
        blocks=BLOCKS,
    )
