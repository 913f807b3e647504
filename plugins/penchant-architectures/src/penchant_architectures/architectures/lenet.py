"""LeNet."""

from torch import nn

from penchant_architectures.architectures.images import image
from penchant_architectures.architectures.initialization import initialise
from penchant_architectures.architectures.layers import Layers, pooling
from penchant_architectures.declarations.convolutional import LeNet

CHANNELS = (6, 16)
KERNEL = 5


def build(options: LeNet, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `lenet`."""
    halving = options.pooling != "none"
    # Behind both convolutions at least one position must be left.
    smallest = 16 if halving else 9
    inputs, height, width = image(shape, "lenet", at_least=smallest)
    layers = Layers(options)
    modules: list[nn.Module] = []
    for channels in CHANNELS:
        modules += layers.convolution_stage(inputs, channels, KERNEL)
        modules += pooling(options.pooling)
        inputs = channels
        height = _shrunk(height, halving=halving)
        width = _shrunk(width, halving=halving)
    # What is left of the image is read as one vector.
    modules.append(nn.Flatten())
    modules += layers.perceptron(inputs * height * width, options.widths, outputs)
    return initialise(nn.Sequential(*modules), options)


def _shrunk(side: int, *, halving: bool) -> int:
    """The side of an image behind a convolution without padding and, perhaps, a pooling."""
    side -= KERNEL - 1
    if halving:
        return side // 2
    return side
