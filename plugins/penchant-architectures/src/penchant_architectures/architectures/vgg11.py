"""VGG11 for small images."""

from torch import nn

from penchant_architectures.architectures.initialization import convolutions_by_fan_out, initialise
from penchant_architectures.architectures.layers import Layers
from penchant_architectures.architectures.vgg_stages import vgg_stages
from penchant_architectures.declarations.convolutional import VGG11

CONVOLUTIONS = (1, 1, 2, 2, 2)


def build(options: VGG11, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `vgg11`."""
    layers = Layers(options)
    stages, features = vgg_stages(
        layers, shape, "vgg11", convolutions=CONVOLUTIONS, base=options.width, kind=options.pooling
    )
    # The vector behind the stages is classified by a perceptron.
    classifier = layers.perceptron(features, options.classifier, outputs, dropout=options.dropout)
    network = nn.Sequential(*stages, *classifier)
    return initialise(network, options, convolutions_by_fan_out)
