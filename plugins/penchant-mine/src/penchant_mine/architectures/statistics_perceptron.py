"""A perceptron over the flattened pair: the architecture `statistics-perceptron`."""

import math

from torch import nn

from penchant_mine.declarations.estimators import StatisticsPerceptron
from penchant_mine.shared.information.conditioned_convolutions import ACTIVATIONS


def build(options: StatisticsPerceptron, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `statistics-perceptron`."""
    # x and z are laid end to end, whatever their shapes were.
    layers: list[nn.Module] = [nn.Flatten()]
    size = math.prod(shape)
    for width in options.widths:
        layers.append(nn.Linear(size, width))
        layers.append(ACTIVATIONS[options.activation]())
        size = width
    # The score has no activation: it may be any number.
    layers.append(nn.Linear(size, outputs))
    return nn.Sequential(*layers)
