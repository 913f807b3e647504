"""A network and samples small enough for every test."""

from __future__ import annotations

import math
from typing import Any

TINY = "penchant_testing.tiny:tiny_network"
SAMPLES = "penchant_testing.tiny:tiny_samples"
READER = "penchant_testing.tiny:tiny_reader"
TOKENS = "penchant_testing.tiny:tiny_tokens"
SEQUENCES = "penchant_testing.tiny:tiny_sequences"
TAGGER = "penchant_testing.tiny:tiny_tagger"


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


def tiny_reader(shape: tuple[int, ...], outputs: int) -> Any:
    """A network of tokens below eight: embedding, hidden layer, mean over positions, head."""
    from torch import nn

    class Mean(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.mean(1)

    return nn.Sequential(
        nn.Embedding(8, 4),
        nn.Linear(4, 8),
        nn.Tanh(),
        Mean(),
        nn.Linear(8, outputs),
    )


def tiny_tagger(shape: tuple[int, ...], outputs: int) -> Any:
    """A network of tokens below eight with outputs at every position."""
    from torch import nn

    return nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, outputs))


def tiny_tokens(generator: Any) -> Any:
    """Sixty train and thirty test sequences of five tokens; the first says the class."""
    import torch

    tokens = torch.randint(8, (90, 5), generator=generator, device="cpu")
    labels = torch.arange(90, device="cpu") % 3
    tokens[:, 0] = labels
    return (tokens[:60], labels[:60]), (tokens[60:], labels[60:])


def tiny_sequences(generator: Any) -> Any:
    """The same sequences with a label for every position: the token before it."""
    (train, _), (test, _) = tiny_tokens(generator)
    return (train, train.roll(1, 1)), (test, test.roll(1, 1))
