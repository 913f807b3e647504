"""Layers as the common options ask for them: activation, normalization, bias."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import nn


class LayerOptions(Protocol):
    """The options that layers use."""

    @property
    def bias(self) -> bool:
        """Have layers a bias?"""

    @property
    def activation(self) -> str:
        """One of `ACTIVATIONS`."""

    @property
    def normalization(self) -> str:
        """`none`, `batch` or `convolutions`."""


class Sine(nn.Module):
    """Elementwise sine."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sine of every number."""
        return torch.sin(x)


class GlobalAverage(nn.Module):
    """The mean of every channel over all positions."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One number a channel."""
        positions = (-2, -1)
        return x.mean(dim=positions)


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "sine": Sine,
    "linear": nn.Identity,
}
POOLINGS = {"max": nn.MaxPool2d, "average": nn.AvgPool2d}


def make_activation(name: str) -> nn.Module:
    """The activation with this name, as a module of its own; never in place."""
    return ACTIVATIONS[name]()


def pooling(kind: str) -> list[nn.Module]:
    """A 2 x 2 pooling of this kind; None for `none`."""
    if kind == "none":
        return []
    return [POOLINGS[kind](2)]


class Layers:
    """Makes the layers of one network.

    Activations are modules of their own, so that hooks see each of them.
    """

    def __init__(self, options: LayerOptions) -> None:
        self._activation = options.activation
        self._bias = options.bias
        # Images and vectors are normalised separately: a classifier may have no batch-norm.
        self._normalized_images = options.normalization in ("batch", "convolutions")
        self._normalized_vectors = options.normalization == "batch"

    def activation(self) -> nn.Module:
        """The activation that the options ask for."""
        return make_activation(self._activation)

    def linear(self, inputs: int, outputs: int) -> nn.Linear:
        """A linear layer with nothing but a sum behind it."""
        return nn.Linear(inputs, outputs, bias=self._bias)

    def convolution(
        self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, padding: int = 0
    ) -> nn.Conv2d:
        """A convolution in front of a normalization, if there are any."""
        # A batch-norm has a bias of its own.
        bias = self._bias and not self._normalized_images
        return nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=padding, bias=bias)

    def normalization(self, channels: int) -> list[nn.Module]:
        """Batch-norm of images, if requested."""
        if not self._normalized_images:
            return []
        return [nn.BatchNorm2d(channels)]

    def convolution_stage(
        self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, padding: int = 0
    ) -> list[nn.Module]:
        """Convolution, normalization, activation."""
        return [
            self.convolution(inputs, outputs, kernel, stride=stride, padding=padding),
            *self.normalization(outputs),
            self.activation(),
        ]

    def linear_stage(self, inputs: int, outputs: int) -> list[nn.Module]:
        """Linear layer, normalization, activation."""
        bias = self._bias and not self._normalized_vectors
        linear = nn.Linear(inputs, outputs, bias=bias)
        stage: list[nn.Module] = [linear]
        if self._normalized_vectors:
            stage.append(nn.BatchNorm1d(outputs))
        stage.append(self.activation())
        return stage

    def perceptron(
        self, inputs: int, widths: tuple[int, ...], outputs: int, *, dropout: float = 0.0
    ) -> list[nn.Module]:
        """Hidden linear layers, each with normalization and activation, and a last linear layer.

        Args:
            inputs: Length of the vectors that come in.
            widths: Units of each hidden layer.
            outputs: Units of the last layer.
            dropout: Share of the inputs of a hidden layer that training leaves out.

        Returns:
            The modules, in their order.
        """
        modules: list[nn.Module] = []
        for width in widths:
            # Without dropout there is no module for it, so that others keep their numbers.
            if dropout:
                modules.append(nn.Dropout(dropout))
            modules += self.linear_stage(inputs, width)
            inputs = width
        modules.append(self.linear(inputs, outputs))
        return modules
