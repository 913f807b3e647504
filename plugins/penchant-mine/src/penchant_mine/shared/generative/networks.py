"""Networks of adversarial models: perceptrons for points, strided convolutions for images.

Tables C.1 to C.11 of the thesis.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from penchant_mine.shared.information.conditioned_convolutions import (
    ACTIVATIONS,
    ConditionedConvolutions,
)

Shape = tuple[int, ...]


def perceptron(
    sizes: Sequence[int], *, batch_norm: bool = False, activation: str = "leaky-relu"
) -> nn.Sequential:
    """Linear layers with an activation between them, batch-normalised where requested."""
    layers: list[nn.Module] = []
    for number, (a, b) in enumerate(zip(sizes, sizes[1:])):
        layers.append(nn.Linear(a, b))
        # The last layer gives numbers as they are.
        if number == len(sizes) - 2:
            break
        if batch_norm:
            layers.append(nn.BatchNorm1d(b))
        layers.append(ACTIVATIONS[activation]())
    return nn.Sequential(*layers)


def halved(side: int, times: int) -> list[int]:
    """Side lengths of a map after 0, 1, ... convolutions of stride 2."""
    sides = [side]
    for _ in range(times):
        sides.append((sides[-1] + 1) // 2)
    return sides


class Upwards(nn.Module):
    """Latent vector to image: a linear layer, then transposed 5 x 5 convolutions of stride 2.

    tanh at the end; ReLU and batch norm before it, as published (tables C.1, C.5, C.9).
    """

    def __init__(
        self,
        latent: int,
        shape: Shape,
        channels: Sequence[int],
        *,
        batch_norm: bool = True,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        times = len(channels)
        heights = halved(shape[1], times)[::-1]
        widths = halved(shape[2], times)[::-1]
        # From the smallest map to the image.
        wide = [*channels[::-1], shape[0]]  # channels are listed as a discriminator meets them
        self.start = (wide[0], heights[0], widths[0])
        first = nn.Linear(latent, math.prod(self.start))
        self.project = nn.Sequential(first, ACTIVATIONS[activation]())
        layers: list[nn.Module] = []
        for number, (a, b) in enumerate(zip(wide, wide[1:])):
            # Odd sides are met by one row or column more.
            more = (
                heights[number + 1] - 2 * heights[number] + 1,
                widths[number + 1] - 2 * widths[number] + 1,
            )
            layers.append(nn.ConvTranspose2d(a, b, 5, stride=2, padding=2, output_padding=more))
            if number == times - 1:
                layers.append(nn.Tanh())
                break
            if batch_norm:
                layers.append(nn.BatchNorm2d(b))
            layers.append(ACTIVATIONS[activation]())
        self.layers = nn.Sequential(*layers)

    def forward(self, z: Tensor) -> Tensor:
        """Images in [-1, 1]."""
        smallest = self.project(z).reshape(-1, *self.start)
        images: Tensor = self.layers(smallest)
        return images


class Downwards(nn.Module):
    """Image to numbers: 5 x 5 convolutions of stride 2.

    Further inputs join as constant maps or before the head. Tables C.2, C.4 and C.8 have ReLU, the
    discriminators of tables C.6 and C.10 leaky ReLU; all have batch norm but in the first layer.
    """

    def __init__(
        self,
        shape: Shape,
        channels: Sequence[int],
        outputs: int,
        *,
        maps: int = 0,
        joined: int = 0,
        hidden: int | None = None,
        batch_norm: bool = True,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        sizes = [shape[0] + maps, *channels]
        layers: list[nn.Module] = []
        for number, (a, b) in enumerate(zip(sizes, sizes[1:])):
            layers.append(nn.Conv2d(a, b, 5, stride=2, padding=2))
            if number and batch_norm:
                layers.append(nn.BatchNorm2d(b))
            layers.append(ACTIVATIONS[activation]())
        self.layers = nn.Sequential(*layers)
        # Maps shrink by half, rounded up, with every layer.
        smallest = [halved(side, len(channels))[-1] for side in shape[1:]]
        flat = sizes[-1] * math.prod(smallest) + joined
        head: list[nn.Module] = []
        if hidden:
            head += [nn.Linear(flat, hidden), ACTIVATIONS[activation]()]
        head.append(nn.Linear(hidden or flat, outputs))
        self.head = nn.Sequential(*head)
        self.maps = maps

    def forward(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        """Numbers (samples, outputs), with another vector of each sample where one is taken."""
        if self.maps:
            assert other is not None
            # A vector becomes maps that are constant over the image.
            sides = x.shape[2:]
            constant = other[:, :, None, None].expand(-1, -1, *sides)
            x = torch.cat([x, constant], 1)
        features = self.layers(x).flatten(1)
        if other is not None and not self.maps:
            features = torch.cat([features, other], 1)
        numbers: Tensor = self.head(features)
        return numbers


class Joined(nn.Module):
    """A perceptron over two vectors laid end to end."""

    def __init__(self, sizes: Sequence[int], *, activation: str = "leaky-relu") -> None:
        super().__init__()
        self.layers = perceptron(sizes, activation=activation)

    def forward(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        """Numbers (samples, outputs)."""
        flat = x.flatten(1)
        if other is not None:
            flat = torch.cat([flat, other.flatten(1)], 1)
        numbers: Tensor = self.layers(flat)
        return numbers


class ConditionedScores(nn.Module):
    """The convolutional statistics network, called with image and vector as two arguments."""

    def __init__(
        self,
        shape: Shape,
        condition: int,
        channels: Sequence[int],
        hidden: int | None,
        activation: str,
    ) -> None:
        super().__init__()
        self.network = ConditionedConvolutions(
            shape, condition, channels=channels, hidden=hidden, activation=activation
        )

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        """Scores (samples, 1)."""
        return self.network.scores(x, other)
