"""Variables with heavy tails."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from second_tasks.task import Array, Task, column

CAUCHY_SIZE, CAUCHY_NOISE = 2, 0.5
LOMAX_SHAPE = 0.25
VOLATILITY_SIZE, VOLATILITY = 3, 1.0  # standard deviation of the log of the scale


def cauchy_channel(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Cauchy x, and z = x + Cauchy noise, in every column."""
    x, noise = rng.standard_cauchy((2, samples, CAUCHY_SIZE))
    return x, x + CAUCHY_NOISE * noise


def cauchy_channel_truth() -> float:
    """Sums of Cauchy variables are Cauchy, and entropy is the log of the scale."""
    return CAUCHY_SIZE * math.log(1 + 1 / CAUCHY_NOISE)


def lomax(samples: int, size: int, shape: float, rng: np.random.Generator) -> Array:
    """Exponential variables over one gamma variable: multivariate Lomax, or Pareto II."""
    values: Array = rng.exponential(size=(samples, size)) / rng.gamma(shape, 1.0, (samples, 1))
    return values


def lomax_information(x_size: int, z_size: int, shape: float) -> float:
    """From the entropy -log (a)_d + (a + d) (psi(a + d) - psi(a)) of d Lomax variables."""

    def of(size: int) -> float:
        more = shape + size
        rising = math.lgamma(more) - math.lgamma(shape)
        return -rising + more * float(special.digamma(more) - special.digamma(shape))

    return of(x_size) + of(z_size) - of(x_size + z_size)


def lomax_halves(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two Lomax variables, whose tails are those of |x|^-0.25."""
    values = lomax(samples, 2, LOMAX_SHAPE, rng)
    return values[:, :1], values[:, 1:]


def lomax_halves_truth() -> float:
    """In closed form."""
    return lomax_information(1, 1, LOMAX_SHAPE)


def with_volatility(logs: Array, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Independent normal x and z, times one scale a sample."""
    x, z = np.exp(column(logs)) * rng.standard_normal((2, len(logs), size))
    return x, z


def shared_volatility(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """A log-normal scale for x and z."""
    logs = VOLATILITY * rng.standard_normal(samples)
    return with_volatility(logs, VOLATILITY_SIZE, rng)


def volatility_information(size: int, spread: float) -> float:
    """Only lengths depend on the scale, and their logs are sums: of it and of a log of chi.

    All integrals are sums on one grid of logs, where densities and their derivatives vanish at both
    ends.
    """
    logs = np.linspace(-14, 7, 1201)
    step = logs[1] - logs[0]
    scales = np.linspace(-7 * spread, 7 * spread, 401)
    weights = np.exp(-0.5 * (scales / spread) ** 2)
    weights /= weights.sum()
    # Each length given the scale (lengths, scales): the density of the log of chi.
    given = np.exp(_log_chi(logs[:, None] - scales, size))
    joint = (given * weights) @ given.T
    single = given @ weights
    ratio = np.log(np.maximum(joint, 1e-300) / np.maximum(np.outer(single, single), 1e-300))
    return float((joint * ratio).sum() * step**2)


def _log_chi(values: Array, size: int) -> Array:
    """Log density of the log of a chi variable."""
    constant = (1 - size / 2) * math.log(2) - math.lgamma(size / 2)
    density: Array = constant + size * values - 0.5 * np.exp(2 * values)
    return density


def shared_volatility_truth() -> float:
    """By sums on a grid."""
    return volatility_information(VOLATILITY_SIZE, VOLATILITY)


TASKS = {
    "cauchy channel": Task(cauchy_channel, cauchy_channel_truth),
    "lomax halves": Task(lomax_halves, lomax_halves_truth),
    "shared volatility": Task(shared_volatility, shared_volatility_truth),
}
