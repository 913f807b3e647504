"""A network and samples small enough for every test."""

from __future__ import annotations

import math
from typing import Any

TINY = "penchant_testing.tiny:tiny_network"
SAMPLES = "penchant_testing.tiny:tiny_samples"


def tiny_network(shape: tuple[int, ...], outputs: int) -> Any:
    """A network for any input shape."""
    from torch import nn

    inputs = math.prod(shape)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(inputs, 8),
        nn.Tanh(),
        nn.Linear(8, outputs),
    )


def tiny_samples(generator: Any) -> Any:
    """Ninety train and thirty test points of three classes in four dimensions."""
    import torch

    numbers = torch.arange(120, device="cpu")
    labels = numbers % 3
    inputs = torch.randn(120, 4, generator=generator, device="cpu")
    # Every class lies along an axis of its own, far enough to be learnt.
    inputs[numbers, labels] += 3.0
    train = (inputs[:90], labels[:90])
    test = (inputs[90:], labels[90:])
    return train, test
