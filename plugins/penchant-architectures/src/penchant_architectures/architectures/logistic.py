"""Logistic regression."""

import math

from torch import nn

from penchant_architectures.architectures.initialization import initialise
from penchant_architectures.declarations.perceptrons import Logistic


def build(options: Logistic, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `logistic`."""
    inputs = math.prod(shape)
    network = nn.Sequential(nn.Flatten(), nn.Linear(inputs, outputs, bias=options.bias))
    return initialise(network, options)
