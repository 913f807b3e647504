"""What a task is, and the sums and integrals that exact values are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from penchant_mine.shared.information.known_information import legendre

Array = np.ndarray
Draw = Callable[[int, np.random.Generator], tuple[Array, Array]]


@dataclass(frozen=True)
class Task:
    """`draw(samples, rng)` gives x and z (samples, size); `truth()` their information in nats."""

    draw: Draw
    truth: Callable[[], float]


def nodes(low: float, high: float, panels: int, each: int = 64) -> tuple[Array, Array]:
    """Nodes and weights of a Gauss-Legendre rule on every panel."""
    positions, weights = legendre(low, high, panels, each)
    return positions.numpy(), weights.numpy()


def normal_density(values: Array, sigma: float | Array = 1.0) -> Array:
    """Of a normal variable with mean 0."""
    density: Array = np.exp(-0.5 * (values / sigma) ** 2) / (np.sqrt(2 * np.pi) * sigma)
    return density


def entropy(density: Array, weights: Array) -> float:
    """-integral of p log p, from a density at the nodes of a rule."""
    return -float((weights * density * np.log(np.maximum(density, 1e-300))).sum())


def column(values: Array) -> Array:
    """One number a sample, as a column."""
    return values[:, None]
