"""Copulas, and other shapes of dependence that correlations describe badly."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from second_tasks.tails import lomax, lomax_information
from second_tasks.task import Array, Task, column, entropy, nodes, normal_density

CLAYTON_SHAPE, CLAYTON_X, CLAYTON_Z = 0.5, 3, 2
FRANK = 8.0
MORGENSTERN = 1.0
LINE_NOISE = 0.3
RING_NOISE = 0.2


def clayton_five(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Five uniform columns: Lomax variables by their own distribution functions."""
    values = lomax(samples, CLAYTON_X + CLAYTON_Z, CLAYTON_SHAPE, rng)
    uniform = (1 + values) ** -CLAYTON_SHAPE
    return uniform[:, :CLAYTON_X], uniform[:, CLAYTON_X:]


def clayton_five_truth() -> float:
    """That of the Lomax variables."""
    return lomax_information(CLAYTON_X, CLAYTON_Z, CLAYTON_SHAPE)


def frank(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """By the inverse of the distribution of z given x."""
    x, level = rng.random((2, samples))
    shrunk = np.exp(-FRANK * x)
    part = level * math.expm1(-FRANK) / (level + (1 - level) * shrunk)
    return column(x), column(-np.log1p(part) / FRANK)


def frank_truth() -> float:
    """The integral of c log c, with density a (1 - e^-a) e^-a(u + v) over a square of a sum."""
    u, weights = nodes(0.0, 1.0, 8)
    left, right = np.expm1(-FRANK * u[:, None]), np.expm1(-FRANK * u)
    top = -FRANK * math.expm1(-FRANK) * np.exp(-FRANK * (u[:, None] + u))
    density = top / (math.expm1(-FRANK) + left * right) ** 2
    return -entropy(density, np.outer(weights, weights))


def morgenstern(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Density 1 + (1 - 2u)(1 - 2v): weak, by rejection of half."""
    x, z, level = rng.random((3, samples))
    density = 1 + MORGENSTERN * (1 - 2 * x) * (1 - 2 * z)
    # Where one is rejected its mirror image is taken: both densities add up to 2.
    z = np.where(2 * level < density, z, 1 - z)
    return column(x), column(z)


def morgenstern_truth() -> float:
    """The integral of c log c."""
    u, weights = nodes(0.0, 1.0, 8)
    density = 1 + MORGENSTERN * (1 - 2 * u[:, None]) * (1 - 2 * u)
    return -entropy(density, np.outer(weights, weights))


def crossed_lines(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """The same number or its opposite, with noise."""
    x, noise = rng.standard_normal((2, samples))
    sign = 2.0 * rng.integers(2, size=samples) - 1
    return column(x), column(sign * x + LINE_NOISE * noise)


def crossed_lines_truth() -> float:
    """That of one line, less what noise leaves of the sign: log 2 - E log(1 + e^-2m(m + e))."""
    x, weights = nodes(0.0, 10.0, 40)
    noise, noise_weights = nodes(-10.0, 10.0, 20)
    signal = column(x / LINE_NOISE)
    unsure = np.logaddexp(0, -2 * signal * (signal + noise))
    known_sign = math.log(2) - unsure @ (noise_weights * normal_density(noise))
    lost = float((2 * weights * normal_density(x)) @ known_sign)
    return 0.5 * math.log1p(1 / LINE_NOISE**2) - lost


def ring(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Both coordinates of a circle, with noise."""
    angle = 2 * math.pi * rng.random(samples)
    noise = RING_NOISE * rng.standard_normal((2, samples))
    return column(np.cos(angle) + noise[0]), column(np.sin(angle) + noise[1])


def ring_truth() -> float:
    """Two coordinates' entropy (sine + noise) minus that in the plane, which is round."""
    reach = 1 + 12 * RING_NOISE
    phases = np.cos(2 * math.pi * (np.arange(4000) + 0.5) / 4000)
    side, weights = nodes(-reach, reach, 20)
    single = normal_density(side[:, None] - phases, RING_NOISE).mean(1)
    radius, radius_weights = nodes(0.0, reach, 20)
    variance = RING_NOISE**2
    # exp(-(r - 1)^2 / 2s) I0e(r / s): Bessel's function times exp(-r / s) does not overflow.
    bump = np.exp(-((radius - 1) ** 2) / (2 * variance)) * special.i0e(radius / variance)
    plane = entropy(bump / (2 * math.pi * variance), 2 * math.pi * radius * radius_weights)
    return 2 * entropy(single, weights) - plane


TASKS = {
    "clayton five": Task(clayton_five, clayton_five_truth),
    "frank": Task(frank, frank_truth),
    "morgenstern": Task(morgenstern, morgenstern_truth),
    "crossed lines": Task(crossed_lines, crossed_lines_truth),
    "ring": Task(ring, ring_truth),
}
