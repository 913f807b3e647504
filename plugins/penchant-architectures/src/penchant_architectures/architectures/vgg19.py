"""VGG19 for small images."""

from torch import nn

from penchant_architectures.architectures.initialization import initialise, kaiming_normal
from penchant_architectures.architectures.layers import Layers
from penchant_architectures.architectures.vgg_stages import vgg_stages
from penchant_architectures.declarations.convolutional import VGG19

CONVOLUTIONS = (2, 2, 4, 4, 4)


def build(options: VGG19, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `vgg19`."""
    layers = Layers(options)
    stages, features = vgg_stages(
        layers, shape, "vgg19", convolutions=CONVOLUTIONS, base=options.width, kind=options.pooling
    )
    network = nn.Sequential(*stages, layers.linear(features, outputs))
    return initialise(network, options, kaiming_normal)
