"""The convolutional statistics network: T(x, z) for images x, conditioned on z at every layer."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "leaky-relu": lambda: nn.LeakyReLU(0.2),
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
}


class ConditionedConvolutions(nn.Module):
    """Strided convolutions over x; a linear map of z is added to the maps of every layer.

    Reference: tables C.3, C.7 and C.11 of the thesis.
    """

    def __init__(
        self,
        image: tuple[int, ...],
        condition: int,
        *,
        channels: Sequence[int],
        hidden: int | None,
        activation: str,
        outputs: int = 1,
    ) -> None:
        super().__init__()
        self.image = image
        sizes = [image[0], *channels]
        convolutions = []
        for a, b in zip(sizes, sizes[1:]):
            convolutions.append(nn.Conv2d(a, b, 5, stride=2, padding=2))
        self.convolutions = nn.ModuleList(convolutions)
        self.conditions = nn.ModuleList(nn.Linear(condition, width) for width in channels)
        self.activation = ACTIVATIONS[activation]()
        # Sides are halved, rounded up, by every layer.
        height, width = image[1], image[2]
        for _ in channels:
            height, width = (height + 1) // 2, (width + 1) // 2
        features = sizes[-1] * height * width
        # Scores from the last feature maps.
        head: list[nn.Module] = []
        if hidden:
            head.append(nn.Linear(features, hidden))  # no activation after it, as published
        head.append(nn.Linear(hidden or features, outputs))
        self.head = nn.Sequential(*head)

    def forward(self, pairs: Tensor) -> Tensor:
        """Scores of flattened pairs (samples, size of x + size of z)."""
        flat = pairs.flatten(1)
        values = math.prod(self.image)
        x = flat[:, :values].reshape(-1, *self.image)
        z = flat[:, values:]
        return self.scores(x, z)

    def scores(self, x: Tensor, z: Tensor) -> Tensor:
        """Scores (samples, outputs) of images x with z."""
        for convolution, condition in zip(self.convolutions, self.conditions):
            # One number a feature map, the same all over the image.
            added = condition(z)[:, :, None, None]
            x = self.activation(convolution(x) + added)
        scores: Tensor = self.head(torch.flatten(x, 1))
        return scores
