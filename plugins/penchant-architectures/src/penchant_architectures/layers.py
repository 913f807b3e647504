"""Layers as the common options ask for them: activation, normalization, bias."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Sine(nn.Module):
    """Elementwise sine."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x)


_ACTIVATIONS = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "sine": Sine,
    "linear": nn.Identity,
}
_POOLINGS = {"max": nn.MaxPool2d, "average": nn.AvgPool2d}


def make_activation(name: str) -> nn.Module:
    """The activation with this name, as a module of its own; never in place."""
    return _ACTIVATIONS[name]()


class Layers:
    """Makes the layers of one network. Activations are modules of their own, so hooks see each of them."""

    def __init__(self, options: Any) -> None:
        self._activation = options.activation
        self._batch_norm = options.normalization == "batch"
        self._bias = options.bias
        self._hidden_bias = (
            options.bias and not self._batch_norm
        )  # a batch-norm has a bias of its own

    def activation(self) -> nn.Module:
        return make_activation(self._activation)

    def linear(self, inputs: int, outputs: int) -> nn.Linear:
        """A linear layer with nothing but a sum behind it."""
        return nn.Linear(inputs, outputs, bias=self._bias)

    def convolution(self, inputs: int, outputs: int, kernel: int, **settings: int) -> nn.Conv2d:
        return nn.Conv2d(inputs, outputs, kernel, bias=self._hidden_bias, **settings)

    def normalization(self, channels: int) -> list[nn.Module]:
        """Batch-norm of images, if asked for."""
        return [nn.BatchNorm2d(channels)] if self._batch_norm else []

    def convolution_stage(
        self, inputs: int, outputs: int, kernel: int, **settings: int
    ) -> list[nn.Module]:
        """Convolution, normalization, activation."""
        return [
            self.convolution(inputs, outputs, kernel, **settings),
            *self.normalization(outputs),
            self.activation(),
        ]

    def perceptron(self, inputs: int, widths: tuple[int, ...], outputs: int) -> list[nn.Module]:
        """Hidden linear layers, each with normalization and activation, and a last linear layer."""
        made: list[nn.Module] = []
        for width in widths:
            made.append(nn.Linear(inputs, width, bias=self._hidden_bias))
            made += [nn.BatchNorm1d(width)] if self._batch_norm else []
            made.append(self.activation())
            inputs = width
        return [*made, self.linear(inputs, outputs)]


def pooling(kind: str) -> list[nn.Module]:
    """A 2 x 2 pooling of this kind; nothing for `none`."""
    return [] if kind == "none" else [_POOLINGS[kind](2)]


class GlobalAverage(nn.Module):
    """The mean of every channel over all positions."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(dim=(-2, -1))
