"""The convolutions of VGG networks: five stages of 3 x 3 kernels, a pooling behind each."""

from torch import nn

from penchant_architectures.architectures.images import image
from penchant_architectures.architectures.layers import Layers, pooling

WIDENING = (1, 2, 4, 8, 8)  # channels of each stage, in units of those of the first


def vgg_stages(
    layers: Layers,
    shape: tuple[int, ...],
    name: str,
    *,
    convolutions: tuple[int, ...],
    base: int,
    kind: str,
) -> tuple[list[nn.Module], int]:
    """The modules up to one vector per image.

    Args:
        layers: Makes the layers.
        shape: Shape of an image.
        name: Of the architecture, for messages.
        convolutions: How many a stage.
        base: Channels of the first stage.
        kind: Of pooling.

    Returns:
        The modules, and the length of the vector.
    """
    shrink = 1 if kind == "none" else 2 ** len(convolutions)
    inputs, height, width = image(shape, name, at_least=shrink)
    # Stages widen the image and, with pooling, halve its sides.
    modules: list[nn.Module] = []
    for count, factor in zip(convolutions, WIDENING):
        channels = base * factor
        for _ in range(count):
            modules += layers.convolution_stage(inputs, channels, 3, padding=1)
            inputs = channels
        modules += pooling(kind)
    modules.append(nn.Flatten())
    return modules, inputs * (height // shrink) * (width // shrink)
