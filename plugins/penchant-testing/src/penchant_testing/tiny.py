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
FIRST_TOKEN = 2**24  # from here on single precision rounds every other token to its neighbour


def tiny_network(shape: tuple[int, ...], outputs: int) -> Any:
    """A network for any input shape."""
    from torch import nn

    inputs = math.prod(shape)
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))


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


def _embedding() -> Any:
    """Tokens from `FIRST_TOKEN` on, eight of them, as vectors; any other is an error."""
    from torch import nn

    class FromFirst(nn.Module):
        def forward(self, tokens: Any) -> Any:
            return tokens.long() - FIRST_TOKEN

    return nn.Sequential(FromFirst(), nn.Embedding(8, 4))


def tiny_reader(shape: tuple[int, ...], outputs: int) -> Any:
    """A network of eight tokens: embedding, hidden layer, mean over positions, head."""
    from torch import nn

    class Mean(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.mean(1)

    return nn.Sequential(_embedding(), nn.Linear(4, 8), nn.Tanh(), Mean(), nn.Linear(8, outputs))


def tiny_tagger(shape: tuple[int, ...], outputs: int) -> Any:
    """A network of eight tokens with outputs at every position."""
    from torch import nn

    return nn.Sequential(_embedding(), nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, outputs))


def tiny_tokens(generator: Any) -> Any:
    """Sixty train and thirty test sequences of five tokens; the first says the class."""
    import torch

    tokens = torch.randint(8, (90, 5), generator=generator, device="cpu")
    labels = torch.arange(90, device="cpu") % 3
    tokens[:, 0] = labels
    # In every batch there is one that would be rounded to a token that does not exist.
    tokens[:, 1] = 7
    tokens += FIRST_TOKEN
    return (tokens[:60], labels[:60]), (tokens[60:], labels[60:])


def tiny_sequences(generator: Any) -> Any:
    """The same sequences with a label for every position but the first: the token before it."""
    (train, _), (test, _) = tiny_tokens(generator)
    pairs = []
    for tokens in (train, test):
        labels = tokens.roll(1, 1) - FIRST_TOKEN
        labels[:, 0] = -100
        pairs.append((tokens, labels))
    return tuple(pairs)
