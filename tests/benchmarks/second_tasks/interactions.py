"""Interactions: several columns together tell what none of them tells alone."""

from __future__ import annotations

import math

import numpy as np
from penchant_mine.shared.information import known_information as known

from second_tasks.task import Array, Task, column, entropy, nodes, normal_density

SIGN_NOISE = 0.5
PRODUCT_NOISE = 0.3
SWITCH_NOISE = 0.4
WIDTH = 0.25  # of the noise on a sum modulo 1
LENGTH_SIZE, LENGTH_NOISE = 4, 0.5


def _with_even_signs(values: Array) -> Array:
    """The last column's sign is changed where that makes the product of all positive."""
    values[:, -1] *= np.sign(values.prod(1))
    return values


def four_signs(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Four normal columns, any three of them independent, whose product is positive."""
    values = _with_even_signs(rng.standard_normal((samples, 4)))
    return values[:, :2], values[:, 2:]


def three_signs(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Five and three normal columns; the product of two and one is positive."""
    values = _with_even_signs(rng.standard_normal((samples, 3)))
    x, z = rng.standard_normal((samples, 3)), rng.standard_normal((samples, 2))
    return np.hstack([x, values[:, :2]]), np.hstack([values[:, 2:], z])


def signs_truth() -> float:
    """One sign is known from the others."""
    return math.log(2)


def sign_of_three(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Five and two columns; one of z is the sign of a product of three, with noise."""
    x, z = rng.standard_normal((samples, 5)), rng.standard_normal((samples, 2))
    z[:, 0] = np.sign(x[:, :3].prod(1)) + SIGN_NOISE * z[:, 0]
    return x, z


def sign_of_three_truth() -> float:
    """A sign plus noise."""
    return known.sign_plus_noise(SIGN_NOISE)


def noisy_product(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Six and three columns; one of z is a product of two of x, with noise."""
    x, z = rng.standard_normal((samples, 6)), rng.standard_normal((samples, 3))
    z[:, 1] = x[:, 2] * x[:, 4] + PRODUCT_NOISE * z[:, 1]
    return x, z


def noisy_product_truth() -> float:
    """Entropy of the sum minus that of the noise; given one factor the sum is normal."""
    z, z_weights = nodes(-45.0, 45.0, 90)
    factor, weights = nodes(0.0, 12.0, 24)
    spread = np.sqrt(factor**2 + PRODUCT_NOISE**2)
    density = 2 * normal_density(z[:, None], spread) @ (weights * normal_density(factor))
    return entropy(density, z_weights) - known.gaussian_entropy(PRODUCT_NOISE)


def switch(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """A sign and two normal columns; z is the one that the sign chooses, with noise."""
    sign = 2.0 * rng.integers(2, size=samples) - 1
    first, second, noise = rng.standard_normal((3, samples))
    z = np.where(sign > 0, first, second) + SWITCH_NOISE * noise
    return np.stack([sign, first, second], 1), column(z)


def switch_truth() -> float:
    """The sum is normal, and given x it is noise."""
    return 0.5 * math.log1p(1 / SWITCH_NOISE**2)


def modular_sum(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """The sum of two uniform columns modulo 1, with bounded noise: any two are independent."""
    x = rng.random((samples, 2))
    z = (x.sum(1) + WIDTH * rng.random(samples)) % 1
    return x, column(z)


def modular_sum_truth() -> float:
    """The sum is uniform, and given x it is uniform on an arc."""
    return -math.log(WIDTH)


def loud_length(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """The log of a squared length, with noise."""
    x = rng.standard_normal((samples, LENGTH_SIZE))
    z = np.log((x**2).sum(1)) + LENGTH_NOISE * rng.standard_normal(samples)
    return x, column(z)


def loud_length_truth() -> float:
    """Entropy of the log of chi-squared (of 4: s e^(-s/2) / 4) + noise, minus that of the noise."""
    logs, weights = nodes(-18.0, 6.0, 60)
    chances = weights * 0.25 * np.exp(2 * logs - 0.5 * np.exp(logs))
    z, z_weights = nodes(-20.0, 10.0, 60)
    density = normal_density(z[:, None] - logs, LENGTH_NOISE) @ chances
    return entropy(density, z_weights) - known.gaussian_entropy(LENGTH_NOISE)


TASKS = {
    "four signs": Task(four_signs, signs_truth),
    "three signs": Task(three_signs, signs_truth),
    "sign of three": Task(sign_of_three, sign_of_three_truth),
    "noisy product": Task(noisy_product, noisy_product_truth),
    "switch": Task(switch, switch_truth),
    "modular sum": Task(modular_sum, modular_sum_truth),
    "loud length": Task(loud_length, loud_length_truth),
}
