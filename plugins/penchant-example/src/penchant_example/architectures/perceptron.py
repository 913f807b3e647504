"""One hidden layer of tanh units."""

import math

from penchant_example.declarations import Perceptron
from torch import nn


def build(options: Perceptron, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `perceptron`: a fresh network."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(shape), options.width),
        nn.Tanh(),
        nn.Linear(options.width, outputs),
    )
