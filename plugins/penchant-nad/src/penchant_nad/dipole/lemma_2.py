"""Both sides of lemma 2 and of the Markov bound, from slopes s = v.grad f and sizes |M v|.

q(v) = g(|s|) with g(t) = alpha t^2 / 2 + beta t, so |grad_theta q| = (alpha |s| + beta) |M v| with
M = d^2 f / d theta dx. With the right factor (the paper prints alpha^2):

    E|grad_theta q(v)| <= alpha sqrt(v^T C v) sqrt(v^T E[M^T M] v) + beta E|M v|,
    P(s^2 >= eta) <= v^T C v / eta.

Both sides come from different networks: on the same ones the inequality would hold whatever was
measured. Arrays are (networks, directions); even rows are measured, odd ones give the bound.
"""

import math
from typing import NamedTuple

import numpy as np
from penchant_numerics.statistics import binomial_stderr, jackknife, mean_and_stderr

TINY = float(np.finfo(float).tiny)

Side = tuple[np.ndarray, np.ndarray]  # values by direction, and their standard errors


class Dipole(NamedTuple):
    """The function g(t) = alpha t^2 / 2 + beta t of a dipole."""

    alpha: float
    beta: float


def gradient_sizes(slopes: np.ndarray, sizes: np.ndarray, dipole: Dipole) -> np.ndarray:
    """|grad_theta q(v)| of each network and direction."""
    growth = dipole.alpha * np.abs(slopes) + dipole.beta
    norms: np.ndarray = growth * sizes
    return norms


def lemma_bound(slopes: np.ndarray, sizes: np.ndarray, dipole: Dipole) -> Side:
    """The right side of lemma 2, and its standard error by the delta method."""
    squares = slopes**2
    norms = sizes**2
    # Neither may be zero: the error divides by them.
    slope = np.sqrt(squares.mean(0))
    slope = np.maximum(slope, TINY)
    size = np.sqrt(norms.mean(0))
    size = np.maximum(size, TINY)
    bound = dipole.alpha * slope * size + dipole.beta * sizes.mean(0)

    # What each network adds: the derivative of the bound by its share in the means.
    by_slope = squares / slope * size
    by_size = norms / size * slope
    influence = dipole.alpha * (by_slope + by_size) / 2 + dipole.beta * sizes
    spread = influence.std(0, ddof=1)
    return bound, spread / math.sqrt(len(slopes))


def both_sides(slopes: np.ndarray, sizes: np.ndarray, dipole: Dipole) -> tuple[Side, Side]:
    """Both sides of lemma 2."""
    measured = gradient_sizes(slopes[::2], sizes[::2], dipole)
    return _mean(measured), lemma_bound(slopes[1::2], sizes[1::2], dipole)


def _mean(values: np.ndarray) -> Side:
    mean, stderr = mean_and_stderr(values, axis=0)
    assert stderr is not None  # each side has several networks
    return np.asarray(mean), np.asarray(stderr)


def tightness(slopes: np.ndarray, sizes: np.ndarray, dipole: Dipole) -> tuple[float, float | None]:
    """Measured side over the bound, mean over directions; the error by leaving out two networks.

    Directions share their networks, so their spread says nothing about other networks.
    """
    measured = gradient_sizes(slopes[::2], sizes[::2], dipole)
    slopes, sizes = slopes[1::2], sizes[1::2]
    pairs = len(slopes)

    def ratio(chosen: np.ndarray) -> float:
        mean = measured[chosen].mean(0)
        # An odd number of networks leaves the measured side one that is in no pair.
        paired = chosen[:pairs]
        bound, _ = lemma_bound(slopes[paired], sizes[paired], dipole)
        tight = mean / np.maximum(bound, TINY)
        return float(tight.mean())

    # A network of the measured side and one of the bound are left out together.
    everything = np.ones(len(measured), dtype=bool)
    without = []
    for pair in range(pairs):
        others = everything.copy()
        others[pair] = False
        without.append(ratio(others))
    error = jackknife(without)
    return ratio(everything), None if error is None else float(error)


def markov_sides(slopes: np.ndarray, eta: float) -> tuple[Side, Side]:
    """P(s^2 >= threshold) and E s^2 / threshold; the threshold is eta means over directions."""
    squares = slopes**2
    threshold = eta * squares.mean()
    above = squares[::2] >= threshold
    share = above.mean(0)
    stderr = np.asarray(binomial_stderr(share, len(above)))
    return (share, stderr), _mean(squares[1::2] / threshold)


def excess(measured: Side, bound: Side) -> np.ndarray:
    """The excess of a measured side over its bound, in standard errors of the difference."""
    (value, own), (limit, of_bound) = measured, bound
    spread = np.hypot(own, of_bound)
    scores: np.ndarray = (value - limit) / np.maximum(spread, TINY)
    return scores
