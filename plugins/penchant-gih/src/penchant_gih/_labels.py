"""Labels that one direction decides: sgn(t + b), sgn(t^2 + b), sgn(sin t + b), t = u.x, b from the training median."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda t: t,
    "quadratic": torch.square,
    "sinusoid": torch.sin,
}


def channel_statistics(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of every channel of inputs (samples, channels, height, width); other inputs are one channel."""
    rows = inputs.transpose(0, 1).flatten(1) if inputs.ndim == 4 else inputs.reshape(1, -1)
    return rows.mean(1), rows.var(1)


def per_pixel(values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """One value a channel as one a pixel, flattened channel first, as inputs and directions are."""
    size = torch.Size(shape).numel()
    return values.repeat_interleave(size // len(values))


class Labeller:
    """Classes of samples along a direction; the threshold and the scale of the noise are those of the training inputs.

    Noise of `noise` times the channel's variance is added to x while labelling, not while training; the sinusoid takes x
    standardised per channel.
    """

    def __init__(self, direction: Tensor, kind: str, train: Tensor, *, noise: float) -> None:
        shape = tuple(train.shape[1:])
        mean, variance = (
            per_pixel(each.to(torch.float64), shape) for each in channel_statistics(train)
        )
        self.shift, self.weights = torch.zeros_like(mean), direction.to(mean.device, torch.float64)
        if kind == "sinusoid":
            self.weights = self.weights / variance.sqrt().clamp(min=1e-12)
            self.shift = mean
        # noise projected on u: the same law as adding it to x, without drawing D numbers a sample
        self.noise = (noise * (variance * self.weights.square()).sum()).sqrt()
        self.score, self.threshold = KINDS[kind], None

    def __call__(self, inputs: Tensor, generator: Generator) -> Tensor:
        """Labels 0 and 1 of inputs; the first call, with the training inputs, sets the threshold to their median."""
        along = (inputs.flatten(1).to(torch.float64) - self.shift) @ self.weights
        noise = torch.randn(len(along), generator=generator, device="cpu", dtype=torch.float64).to(
            along.device
        )
        score = self.score(along + self.noise * noise)
        if self.threshold is None:
            self.threshold = score.median()
        return (score > self.threshold).long()


def isotropic_inputs(
    count: int, direction: Tensor, epsilon: float, shape: tuple[int, ...], generator: Generator
) -> Tensor:
    """x = epsilon a u + w, a ~ N(0, 1), w ~ N(0, I - u u^T): normal, with standard deviation epsilon along u and 1 elsewhere."""
    rows = torch.randn(count, direction.numel(), generator=generator, device="cpu")
    unit = direction.to("cpu", rows.dtype).flatten()
    return (rows + torch.outer((epsilon - 1) * (rows @ unit), unit)).reshape(count, *shape)
