"""Variables with atoms: values that many samples share, beside continuous ones or alone."""

from __future__ import annotations

import math

import numpy as np
from penchant_mine.shared.information.known_information import gaussian_entropy
from scipy import special, stats

from second_tasks.task import Array, Task, column, entropy, nodes, normal_density

SYMBOLS, KEPT = 8, 0.7  # of a channel that erases the rest
NOISE = 0.3
RHO = 0.8
GATES = 3
SHAPE, SCALE = 2.0, 3.0  # of the gamma variable behind counts


def erased_symbol(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """A symbol of eight, which arrives or is erased."""
    sent = rng.integers(SYMBOLS, size=samples)
    received = np.where(rng.random(samples) < KEPT, sent, SYMBOLS)
    return column(sent.astype(float)), column(received.astype(float))


def erased_symbol_truth() -> float:
    """What arrives tells all, the rest nothing."""
    return KEPT * math.log(SYMBOLS)


def rectified_channel(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Half of x is 0; z = x + noise."""
    x = np.maximum(rng.standard_normal(samples), 0)
    return column(x), column(x + NOISE * rng.standard_normal(samples))


def rectified_channel_truth() -> float:
    """Entropy of the sum minus that of the noise; the density of the sum is in closed form."""
    z, weights = nodes(-12 * NOISE, 9.0, 40)
    whole = math.hypot(1, NOISE)
    above = normal_density(z, whole) * special.ndtr(z / (NOISE * whole))
    density = 0.5 * normal_density(z, NOISE) + above
    return entropy(density, weights) - gaussian_entropy(NOISE)


def rectified_pair(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Correlated normal variables, both set to 0 below 0."""
    x = rng.standard_normal(samples)
    z = RHO * x + math.sqrt(1 - RHO**2) * rng.standard_normal(samples)
    return column(np.maximum(x, 0)), column(np.maximum(z, 0))


def rectified_pair_truth() -> float:
    """Both 0, one of them 0 (an integral), none (moments of a quadrant)."""
    rest = math.sqrt(1 - RHO**2)
    both = 0.25 + math.asin(RHO) / (2 * math.pi)  # also the chance that both are above 0
    x, weights = nodes(0.0, 12.0, 40)
    below = special.ndtr(-RHO * x / rest)
    one = float((weights * normal_density(x) * special.xlogy(below, 2 * below)).sum())
    squares = both + RHO * rest / (2 * math.pi)  # mean of x^2 where both are above 0
    products = RHO * both + rest / (2 * math.pi)
    exponent = (2 * RHO * products - 2 * RHO**2 * squares) / (2 * rest**2)
    none = -both * math.log(rest) + exponent
    return both * math.log(4 * both) + 2 * one + none


def shared_gates(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Independent normal x and z, but that columns of both are 0 together."""
    gates = rng.random((samples, GATES)) < 0.5
    x, z = rng.standard_normal((2, samples, GATES))
    return gates * x, gates * z


def shared_gates_truth() -> float:
    """The gates are seen from either side, and nothing else is shared."""
    return GATES * math.log(2)


def photon_counts(samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """A gamma variable, and Poisson counts at its rate."""
    rate = rng.gamma(SHAPE, SCALE, samples)
    return column(rate), column(rng.poisson(rate).astype(float))


def photon_counts_truth() -> float:
    """Entropy of the counts (negative binomial) minus that of counts at a known rate."""
    counts = np.arange(400)
    marginal = stats.nbinom.pmf(counts, SHAPE, 1 / (1 + SCALE))
    rate, weights = nodes(0.0, 40 * SCALE, 60)
    density = stats.gamma.pdf(rate, SHAPE, scale=SCALE)
    known = stats.poisson.pmf(counts, rate[:, None])
    of_known = special.entr(known).sum(1)
    return float(special.entr(marginal).sum() - (weights * density * of_known).sum())


TASKS = {
    "erased symbol": Task(erased_symbol, erased_symbol_truth),
    "rectified channel": Task(rectified_channel, rectified_channel_truth),
    "rectified pair": Task(rectified_pair, rectified_pair_truth),
    "shared gates": Task(shared_gates, shared_gates_truth),
    "photon counts": Task(photon_counts, photon_counts_truth),
}
