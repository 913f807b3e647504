"""Images as generative models take them, and how many samples are stored for figures."""

from __future__ import annotations

from torch import Tensor

POINTS = 2000
PICTURES = 64


def scaled(inputs: Tensor) -> Tensor:
    """Pixels from [0, 1] to [-1, 1]; points as they are."""
    if inputs.ndim == 4:
        return 2 * inputs - 1
    return inputs


def shown(samples: Tensor) -> Tensor:
    """The first samples, as many as a figure shows."""
    if samples.ndim == 4:
        return samples[:PICTURES]
    return samples[:POINTS]
