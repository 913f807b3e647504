"""Bounded noise and bounded support, where densities end at an edge; and independent variables."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from second_tasks.task import Array, Task, column, entropy, nodes

ARC = 0.4  # half of the arc that the noise on an angle covers
TRIANGLE = 0.2  # half of the base of triangular noise


def ball(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two coordinates and the third of a uniform point of a ball."""
    points = rng.standard_normal((samples, 3))
    length = rng.random(samples) ** (1 / 3)
    points *= column(length / np.linalg.norm(points, axis=1))
    return points[:, :2], points[:, 2:]


def ball_truth() -> float:
    """Entropies of the densities 3 s / 2 pi, s^2 = 1 - r^2, and 3 (1 - z^2) / 4, and of a ball."""
    plane = math.log(2 * math.pi / 3) + 1 / 3
    line = math.log(4 / 3) - math.log(4) + 5 / 3
    return plane + line - math.log(4 * math.pi / 3)


def exponential_delay(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """An exponential time, and a later one after another exponential time."""
    x, wait = rng.exponential(size=(2, samples))
    return column(x), column(x + wait)


def exponential_delay_truth() -> float:
    """The entropy 2 - psi(2) of a gamma variable less 1: Euler's constant."""
    return 1 - float(special.digamma(2.0))


def angle(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Points of a circle, and the same turned by up to ARC: their sum is a circle again."""
    first = 2 * math.pi * rng.random(samples)
    second = first + ARC * (2 * rng.random(samples) - 1)
    x, z = (np.stack([np.cos(each), np.sin(each)], 1) for each in (first, second))
    return x, z


def angle_truth() -> float:
    """The share of the circle that noise covers."""
    return math.log(math.pi / ARC)


def triangular_noise(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Uniform x, and z = x + noise of a triangular density."""
    x, first, second = rng.random((3, samples))
    return column(x), column(x + TRIANGLE * (first - second))


def triangular_noise_truth() -> float:
    """Entropy of the sum, whose density is a difference of the noise's distribution function."""
    z, weights = nodes(-TRIANGLE, 1 + TRIANGLE, 60)

    def below(values: Array) -> Array:
        t = np.clip(values / TRIANGLE, -1, 1)
        chance: Array = np.where(t < 0, (1 + t) ** 2 / 2, 1 - (1 - t) ** 2 / 2)
        return chance

    density = below(z) - below(z - 1)
    return entropy(density, weights) - (0.5 + math.log(TRIANGLE))


def strange_tails(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Independent Cauchy columns."""
    x, z = rng.standard_cauchy((2, samples, 2))
    return x, z


def strange_counts(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Independent counts."""
    x = rng.poisson(3.0, (samples, 2)).astype(float)
    z = rng.poisson(5.0, (samples, 1)).astype(float)
    return x, z


def nothing() -> float:
    """Independent variables."""
    return 0.0


TASKS = {
    "ball": Task(ball, ball_truth),
    "exponential delay": Task(exponential_delay, exponential_delay_truth),
    "angle": Task(angle, angle_truth),
    "triangular noise": Task(triangular_noise, triangular_noise_truth),
    "strange tails": Task(strange_tails, nothing),
    "strange counts": Task(strange_counts, nothing),
}
