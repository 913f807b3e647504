"""Multilayer perceptron."""

import math

from torch import nn

from penchant_architectures.architectures.initialization import initialise
from penchant_architectures.architectures.layers import Layers
from penchant_architectures.declarations.perceptrons import Perceptron


def build(options: Perceptron, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `mlp`."""
    inputs = math.prod(shape)
    modules = Layers(options).perceptron(inputs, options.widths, outputs)
    network = nn.Sequential(nn.Flatten(), *modules)
    return initialise(network, options)
