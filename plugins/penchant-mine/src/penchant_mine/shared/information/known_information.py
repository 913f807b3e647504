"""Mutual information that is known: closed forms, and integrals to many digits."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

NODES = 400  # of a Gauss-Legendre rule on every panel
SMALLEST = 1e-300  # density whose logarithm is taken


def legendre(low: float, high: float, panels: int = 1, nodes: int = NODES) -> tuple[Tensor, Tensor]:
    """Nodes and weights on [low, high] in float64, on the CPU."""
    points, weights = (torch.from_numpy(each) for each in np.polynomial.legendre.leggauss(nodes))
    edges = torch.linspace(low, high, panels + 1, device="cpu", dtype=torch.float64)
    half = (edges[1:] - edges[:-1]) / 2
    middle = (edges[1:] + edges[:-1]) / 2
    positions = middle[:, None] + half[:, None] * points
    return positions.flatten(), (half[:, None] * weights).flatten()


def gaussian_entropy(sigma: float) -> float:
    """Entropy of a normal variable, in nats."""
    variance = sigma**2
    argument = 2 * math.pi * math.e * variance
    return 0.5 * math.log(argument)


def correlated_gaussians(dimension: int, rho: float) -> float:
    """-d/2 log(1 - rho^2): d pairs of normal variables with correlation rho."""
    # log1p keeps the digits of weak correlations.
    squared = rho**2
    return -dimension / 2 * math.log1p(-squared)


def correlation_for(information: float, dimension: int) -> float:
    """The correlation of d normal pairs that have this much information."""
    # Estimates below 0 have no correlation.
    positive = max(0.0, information)
    exponent = -2 * positive / dimension
    return math.sqrt(-math.expm1(exponent))


def dense_gaussians(x_size: int, z_size: int, rho: float) -> float:
    """Normal x and z, of which any two components have correlation rho.

    The determinant of n such components is (1 - rho)^(n - 1) (1 + (n - 1) rho); powers of 1 - rho
    leave one behind.
    """

    def log_sum(size: int) -> float:
        return math.log1p((size - 1) * rho)

    logs = log_sum(x_size) + log_sum(z_size) - log_sum(x_size + z_size)
    return 0.5 * (logs - math.log1p(-rho))


def uniform_noise(width: float) -> float:
    """I(X; X + N) for X uniform on [0, 1] and N uniform on [-width, width]."""
    if width < 0.5:
        return width - math.log(2 * width)
    return 1 / (4 * width)


def noisy_map(function: Callable[[Tensor], Tensor], sigma: float) -> float:
    """I(X; f(X) + sigma e) for X uniform on [-1, 1] and f into [-1, 1].

    Entropy of the sum minus that of the noise.
    """
    # Narrow noise needs narrow panels.
    least = math.ceil(1 / sigma)
    panels = min(64, max(4, least))
    x, x_weights = legendre(-1, 1, panels, 64)
    reach = 1 + 10 * sigma
    y, y_weights = legendre(-reach, reach, 4 * panels, 64)
    density = torch.zeros_like(y)
    normaliser = 2 * math.sqrt(2 * math.pi) * sigma
    centres = function(x)
    # Some rows at a time, to bound the memory.
    for rows in torch.arange(len(y), device="cpu").split(1024):
        kernel = _bump(y[rows, None], centres, sigma)
        density[rows] = kernel @ x_weights / normaliser
    return _entropy(density, y_weights) - gaussian_entropy(sigma)


def _entropy(density: Tensor, weights: Tensor) -> float:
    """-integral of p log p, from a density at the nodes of a rule."""
    logs = torch.xlogy(density, density)
    integral = (weights * logs).sum()
    return -float(integral)


def _bump(y: Tensor, centre: float | Tensor, sigma: float) -> Tensor:
    return torch.exp(-((y - centre) ** 2) / (2 * sigma**2))


def sign_plus_noise(sigma: float) -> float:
    """I(S; S + sigma e) for S = +-1, equally likely. sigma^2 = 0.2 gives 0.6587 nats."""
    reach = 1 + 12 * sigma
    y, weights = legendre(-reach, reach, 8)
    # The density of the sum is two bumps, one for each sign.
    bumps = _bump(y, 1, sigma) + _bump(y, -1, sigma)
    normaliser = 2 * math.sqrt(2 * math.pi) * sigma
    density = bumps / normaliser
    return _entropy(density, weights) - gaussian_entropy(sigma)


def shared_sign(sigma: float) -> float:
    """I(S + sigma e; S + sigma e') for one S = +-1 and independent noises.

    A mixture of two normal pairs.
    """
    reach = 1 + 10 * sigma
    y, weights = legendre(-reach, reach, 4, 200)
    normaliser = math.sqrt(2 * math.pi) * sigma
    above = _bump(y, 1, sigma) / normaliser
    below = _bump(y, -1, sigma) / normaliser
    # Both signs are equally likely, and shared by x and z.
    both_above = above[:, None] * above
    both_below = below[:, None] * below
    joint = 0.5 * (both_above + both_below)
    single = 0.5 * (above + below)
    # Logarithms of the joint density and of that of one variable.
    together = torch.log(joint.clamp(min=SMALLEST))
    marginal = torch.log(single.clamp(min=SMALLEST))
    ratio = together - marginal[:, None] - marginal
    areas = weights[:, None] * weights
    integral = (areas * joint * ratio).sum()
    return float(integral)


def student(dimension: int, rho: float, freedom: float) -> float:
    """Both halves of a Student t vector of 2d components.

    The normal value, and what the shared scale adds even at rho = 0.
    """
    of_normals = correlated_gaussians(dimension, rho)
    half = _student_entropy(freedom, dimension)
    whole = _student_entropy(freedom, 2 * dimension)
    return of_normals + 2 * half - whole


def _student_entropy(freedom: float, dimension: int) -> float:
    """Entropy of a standard Student t vector."""
    half = freedom / 2
    more = (freedom + dimension) / 2
    arguments = torch.tensor([more, half], device="cpu", dtype=torch.float64)
    digamma = torch.special.digamma(arguments)
    of_scale = dimension / 2 * math.log(freedom * math.pi)
    normaliser = of_scale + math.lgamma(half) - math.lgamma(more)
    difference = digamma[0] - digamma[1]
    return normaliser + more * float(difference)
