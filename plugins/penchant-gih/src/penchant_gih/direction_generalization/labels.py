"""Labels that one direction decides: sgn(t + b), sgn(t^2 + b), sgn(sin t + b), t = u.x.

b is minus the training median of the score. The sinusoid takes images standardised per channel;
on isotropic inputs x = epsilon a u + w it is sin(pi a), a before it is scaled by epsilon, as in the
published code, so that epsilon is a margin.
"""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda t: t,
    "quadratic": torch.square,
    "sinusoid": torch.sin,
}
SMALLEST_DEVIATION = 1e-12  # of a channel that is standardised


def channel_statistics(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of every channel of images (samples, channels, height, width).

    Other inputs are one channel.
    """
    if inputs.ndim == 4:
        rows = inputs.transpose(0, 1).flatten(1)
    else:
        rows = inputs.reshape(1, -1)
    return rows.mean(1), rows.var(1)


def per_pixel(values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """One value a channel as one a pixel, flattened channel first, as inputs and directions are."""
    size = torch.Size(shape).numel()
    a_channel = size // len(values)
    return values.repeat_interleave(a_channel)


class Labeller:
    """Classes of samples along a direction.

    The threshold, and the scale of the noise, are those of the training inputs. Noise of `noise`
    times the channel's variance is added to x while labelling, not while training.

    Args:
        direction: u (D,).
        kind: `linear`, `quadratic` or `sinusoid`.
        train: Training inputs (samples, *shape).
        noise: Variance of the noise, in units of the channel's.
        unit: For the sinusoid: sin(pi t / unit); None: of x standardised per channel.
    """

    def __init__(
        self,
        direction: Tensor,
        kind: str,
        train: Tensor,
        *,
        noise: float,
        unit: float | None = None,
    ) -> None:
        shape = tuple(train.shape[1:])
        # One number a channel, repeated for its pixels.
        mean, variance = channel_statistics(train)
        mean = per_pixel(mean.to(torch.float64), shape)
        variance = per_pixel(variance.to(torch.float64), shape)
        self.shift = torch.zeros_like(mean)
        self.weights = direction.to(mean.device, torch.float64)
        # Only the sinusoid cares how long its argument is.
        if kind == "sinusoid":
            if unit is None:
                self.weights = self.weights / variance.sqrt().clamp(min=SMALLEST_DEVIATION)
                self.shift = mean
            else:
                self.weights = self.weights * (math.pi / unit)
        # Noise projected on u: the same law as adding it to x, without D numbers per sample.
        self.noise = (noise * (variance * self.weights.square()).sum()).sqrt()
        self.score = KINDS[kind]
        self.threshold: Tensor | None = None

    def __call__(self, inputs: Tensor, generator: Generator) -> Tensor:
        """Labels 0 and 1 of inputs.

        The first call, with the training inputs, sets the threshold to their median.
        """
        # The coordinate along u, its noise, and the score of both.
        along = (inputs.flatten(1).to(torch.float64) - self.shift) @ self.weights
        noise = torch.randn(len(along), generator=generator, device="cpu", dtype=torch.float64)
        noise = noise.to(along.device)
        score = self.score(along + self.noise * noise)
        if self.threshold is None:
            self.threshold = score.median()
        return (score > self.threshold).long()


def isotropic_inputs(
    count: int, direction: Tensor, epsilon: float, shape: tuple[int, ...], generator: Generator
) -> Tensor:
    """X = epsilon a u + w, a ~ N(0, 1), w ~ N(0, I - u u^T), on the CPU.

    Normal, with standard deviation epsilon along u and 1 elsewhere.

    Args:
        count: How many.
        direction: u (D,), a unit vector.
        epsilon: Standard deviation along u.
        shape: Shape of an input.
        generator: A generator on the CPU.
    """
    size = direction.numel()
    rows = torch.randn(count, size, generator=generator, device="cpu")
    unit = direction.to("cpu", rows.dtype).flatten()
    # Only the component along u is scaled.
    along = rows @ unit
    stretched = torch.outer((epsilon - 1) * along, unit)
    return (rows + stretched).reshape(count, *shape)
