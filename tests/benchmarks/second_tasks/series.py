"""Samples that are not independent of each other; the information is that of one of them."""

from __future__ import annotations

import math

import numpy as np
from penchant_mine.shared.information import known_information as known
from scipy import signal

from second_tasks.tails import volatility_information, with_volatility
from second_tasks.task import Array, Task, column

RHO = 0.6
FLIPS, SIGN_NOISE = 0.02, 0.5
COPIES = 3
VOLATILITY = 1.0


def slow(samples: int, memory: float, rng: np.random.Generator) -> Array:
    """A stationary normal series: each is `memory` times the one before, and noise."""
    noise = math.sqrt(1 - memory**2) * rng.standard_normal(samples)
    noise[0] = rng.standard_normal()
    series: Array = signal.lfilter([1.0], [1.0, -memory], noise)
    return series


def slow_pair(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two correlated series that change slowly."""
    x, other = (slow(samples, 0.95, rng) for _ in range(2))
    return column(x), column(RHO * x + math.sqrt(1 - RHO**2) * other)


def normal_truth() -> float:
    """A normal pair."""
    return known.correlated_gaussians(1, RHO)


def slow_strangers(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two independent series that change slowly."""
    x, z = (slow(samples, 0.98, rng) for _ in range(2))
    return column(x), column(z)


def nothing() -> float:
    """Independent variables."""
    return 0.0


def telegraph(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """A sign that flips now and then, seen twice with noise."""
    flips = np.where(rng.random(samples) < FLIPS, -1.0, 1.0)
    sign = flips.cumprod() * (2.0 * rng.integers(2) - 1)
    x, z = sign + SIGN_NOISE * rng.standard_normal((2, samples))
    return column(x), column(z)


def telegraph_truth() -> float:
    """One sign, two noises."""
    return known.shared_sign(SIGN_NOISE)


def volatility_clusters(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Uncorrelated columns whose shared scale changes slowly."""
    return with_volatility(VOLATILITY * slow(samples, 0.97, rng), 1, rng)


def volatility_clusters_truth() -> float:
    """That of independent scales."""
    return volatility_information(1, VOLATILITY)


def repeated_rows(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Every normal pair three times, in random order."""
    different = -(-samples // COPIES)
    x, noise = rng.standard_normal((2, different))
    z = RHO * x + math.sqrt(1 - RHO**2) * noise
    order = rng.permutation(np.repeat(np.arange(different), COPIES)[:samples])
    return column(x[order]), column(z[order])


TASKS = {
    "slow pair": Task(slow_pair, normal_truth),
    "slow strangers": Task(slow_strangers, nothing),
    "telegraph": Task(telegraph, telegraph_truth),
    "volatility clusters": Task(volatility_clusters, volatility_clusters_truth),
    "repeated rows": Task(repeated_rows, normal_truth),
}
