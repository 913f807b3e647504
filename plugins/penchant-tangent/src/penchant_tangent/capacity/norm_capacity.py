"""Rademacher complexity of balls of norms around interpolators, and its bounds.

For features Phi (n, P) with K = Phi Phi^T = sum_j lambda_j u_j u_j^T, the interpolator of least
norm of y is w = Phi^T K^-1 y. Rescaling singular values by A_nu gives
|w|_A^2 = sum_j nu_j (u_j . y)^2 / lambda_j and K_A = sum_j (lambda_j / nu_j) u_j u_j^T. The ball of
functions with |w|_A at most M has the complexity
(M / n) E sqrt(sigma^T K_A sigma) <= (M / n) sqrt(tr K_A). The bound at M = |w|_A is smallest for
nu_j = lambda_j / |u_j . y|, where it is sum_j |u_j . y| / n (Baratin, thesis, B.7).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from penchant_numerics.device import HOST
from torch import Generator, Tensor


class Ball(NamedTuple):
    """A ball of functions: bound of its complexity, and the complexity with its error."""

    bound: float
    complexity: float
    stderr: float


def random_features(points: Tensor, *, count: int, gamma: float, generator: Generator) -> Tensor:
    """Features (points, count) with <phi(x), phi(x')> near exp(-gamma |x - x'|^2).

    sqrt(2 / P) cos(w x + b) with w ~ N(0, 2 gamma) and b uniform.

    Args:
        points: Positions (N,) on a line.
        count: P.
        gamma: Of the kernel.
        generator: A generator on the CPU.

    Reference: Rahimi and Recht, Random features for large-scale kernel machines, 2007.
    """
    # sampled on the CPU, the same for every device
    normal = torch.randn(count, generator=generator, **HOST)
    uniform = torch.rand(count, generator=generator, **HOST)

    # frequencies have the kernel's Fourier transform as their density
    frequencies = normal * (2 * gamma) ** 0.5
    phases = uniform * 2 * torch.pi
    angles = points[:, None] * frequencies + phases
    scale = (2 / count) ** 0.5
    features: Tensor = scale * angles.cos()
    return features


def ball(
    values: Tensor, vectors: Tensor, y: Tensor, *, rescaling: Tensor | None, signs: Tensor
) -> Ball:
    """The ball of a norm that just holds the interpolator.

    Args:
        values: Eigenvalues (k,) of the kernel, positive.
        vectors: Its eigenvectors (n, k), as columns.
        y: Labels (n,).
        rescaling: nu (k,); None is the usual norm.
        signs: Random signs (draws, n).

    Returns:
        Its bound, and its complexity simulated with these signs.
    """
    # the radius that just holds the interpolator
    nu = torch.ones_like(values) if rescaling is None else rescaling
    along = vectors.T @ y
    squares = nu * along.square() / values
    radius = squares.sum().sqrt()

    # how far functions of the ball follow random signs
    scaled = values / nu
    products = (signs @ vectors).square() * scaled
    draws = products.sum(1).sqrt()

    # on average over signs, and at most
    n = len(y)
    complexity = radius * draws.mean() / n
    stderr = radius * draws.std() / n / len(draws) ** 0.5
    bound = radius * scaled.sum().sqrt() / n
    return Ball(float(bound), float(complexity), float(stderr))


def with_two_signs(psi: Tensor, share: float = 0.1) -> int:
    """The first column of psi (N, k) with at least this share of its entries on either side of 0.

    >>> with_two_signs(torch.tensor([[1.0, 1.0], [2.0, -1.0]], device="cpu"))
    1
    """
    # the smaller side of every column
    positive = (psi >= 0).double().mean(0)
    negative = 1 - positive
    smaller = torch.minimum(positive, negative)

    # the first that is large enough
    fitting = torch.nonzero(smaller >= share)
    if not len(fitting):
        columns = psi.shape[1]
        raise ValueError(f"no column of {columns} has {share:g} of its entries on either side")
    return int(fitting[0])


def optimal_rescaling(values: Tensor, vectors: Tensor, y: Tensor) -> Tensor:
    """nu_j = lambda_j / |u_j . y|, which makes the bound smallest."""
    along = (vectors.T @ y).abs()
    # a direction that labels do not have costs nothing, whatever its scale
    rounding = torch.finfo(along.dtype).eps
    tiny = rounding * along.max()
    return values / along.clamp(min=tiny)
