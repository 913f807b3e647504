"""Networks that see their input as one long vector."""

from __future__ import annotations

import math
from typing import Any

from torch import nn

from penchant_architectures.initialization import initialise
from penchant_architectures.layers import Layers


def build_logistic(options: Any, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `logistic`."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), outputs, bias=options.bias))
    return initialise(network, options)


def build_mlp(options: Any, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Target of the architecture `mlp`."""
    network = nn.Sequential(
        nn.Flatten(), *Layers(options).perceptron(math.prod(shape), options.widths, outputs)
    )
    return initialise(network, options)
