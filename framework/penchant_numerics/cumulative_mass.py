"""How much of a spectrum lies below a number: bounds that Lanczos proves, and what it cannot tell.

m nodes and weights of Gauss quadrature know 2 m moments of the spectral measure of their start
vector, and no more. Among all measures with these moments, the mass up to x is largest and least
for the one that has a node at x itself (Chebyshev, Markov and Stieltjes): with its nodes t_j,

    sum_{t_j < x} w_j  <=  F(x -)  <=  F(x)  <=  sum_{t_j <= x} w_j.

The bounds are apart by the weight of the node at x, which is the Christoffel function there: the
resolution of the quadrature. They hold for the measure that the start vector sees; the mean over
start vectors estimates the bounds of the whole spectrum, with a standard error. Eigenvalues whose
weight is known by count add no uncertainty.

Beside a large mass at one place (the null space of a Hessian) the sign of a node says nothing. So
the mass below a threshold is told in two parts: what is below it by more than the resolution, and
what is within.

References: Golub and Meurant, Matrices, Moments and Quadrature with Applications, 2010, chapter 6;
Karlin and Studden, Tchebycheff Systems, 1966; Szego, Orthogonal Polynomials, section 3.41.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from penchant_numerics.lanczos import Tridiagonal, lanczos
from penchant_numerics.lanczos_quadrature import Quadrature
from penchant_numerics.operators import Dense
from torch import Tensor

_FAR = 1e10  # an entry this many ranges away stands for a node at infinity


class CumulativeBounds(NamedTuple):
    """Bounds of the share of eigenvalues up to each of some numbers, means over start vectors."""

    lower: Tensor  # (points,)
    upper: Tensor  # (points,)
    lower_stderr: Tensor | None  # over start vectors; nothing with a single one
    upper_stderr: Tensor | None


class MassBelow(NamedTuple):
    """The share of eigenvalues below a threshold, as far as it is known."""

    below: float  # by more than the resolution
    within: float  # of the threshold by less
    lower: float  # bounds of `below`, which Lanczos proves for its start vectors
    upper: float
    below_stderr: float | None  # over start vectors; nothing with a single one
    within_stderr: float | None
    resolution: float


def cumulative_bounds(measure: Quadrature, at: Tensor) -> CumulativeBounds:
    """Lower and upper bounds of the share of eigenvalues up to each number.

    >>> from penchant_numerics.lanczos_quadrature import exact_quadrature
    >>> values = torch.tensor([1.0, 2.0, 3.0, 4.0], device="cpu")
    >>> bounds = cumulative_bounds(exact_quadrature(values), torch.tensor([2.5], device="cpu"))
    >>> bounds.lower.tolist(), bounds.upper.tolist()  # all eigenvalues are known
    ([0.5], [0.5])
    """
    places = at.to("cpu", torch.float64).flatten()
    lower, upper = [], []
    for nodes, weights, residuals in zip(measure.nodes, measure.weights, measure.residuals):
        run = _Run.of(nodes, weights, residuals)
        bounds = torch.tensor([run.bounds(float(place)) for place in places], dtype=torch.float64)
        lower.append(bounds[:, 0])
        upper.append(bounds[:, 1])
    return CumulativeBounds(
        lower=torch.stack(lower).mean(0),
        upper=torch.stack(upper).mean(0),
        lower_stderr=_stderr(lower),
        upper_stderr=_stderr(upper),
    )


def mass_below(
    measure: Quadrature, threshold: float = 0.0, *, resolution: float | None = None
) -> MassBelow:
    """The share of eigenvalues below a threshold, and the share too near to it to say.

    Args:
        measure: The spectral measure.
        threshold: The threshold.
        resolution: How near is too near; the default is how far apart nodes are on average, the
            range of the spectrum over the number of steps, and nothing where all eigenvalues are
            known.

    Returns:
        Both shares with their standard errors over start vectors, and the bounds of the first.

    >>> from penchant_numerics.lanczos_quadrature import exact_quadrature
    >>> values = torch.tensor([-2.0, -1.0, 1e-9, 3.0], device="cpu")
    >>> found = mass_below(exact_quadrature(values), resolution=1e-6)
    >>> found.below, found.within
    (0.5, 0.25)
    """
    if resolution is None:
        resolution = resolution_of(measure)
    below, within = [], []
    for nodes, weights in zip(measure.nodes, measure.weights):
        near = (nodes - threshold).abs() <= resolution
        lower = (nodes < threshold) & ~near
        below.append(weights[lower].sum())
        within.append(weights[near].sum())
    end = torch.tensor([threshold - resolution], device="cpu", dtype=torch.float64)
    bounds = cumulative_bounds(measure, end)
    below_stderr, within_stderr = _stderr(below), _stderr(within)
    return MassBelow(
        below=float(torch.stack(below).mean()),
        within=float(torch.stack(within).mean()),
        lower=float(bounds.lower),
        upper=float(bounds.upper),
        below_stderr=None if below_stderr is None else float(below_stderr),
        within_stderr=None if within_stderr is None else float(within_stderr),
        resolution=resolution,
    )


def resolution_of(measure: Quadrature) -> float:
    """How far apart nodes are on average: the range of the spectrum over the steps.

    Where every node is an eigenvalue, only rounding is not resolved.
    """
    low, high = measure.bounds
    if measure.complete:
        return torch.finfo(torch.float64).eps * max(abs(low), abs(high))
    return (high - low) / measure.steps


def _stderr(values: list[Tensor]) -> Tensor | None:
    """The standard error of a mean over start vectors."""
    if len(values) < 2:
        return None
    return torch.stack(values).std(0) / math.sqrt(len(values))


@dataclass(frozen=True)
class _Run:
    """The quadrature of one start vector: what is known by count, and a Gauss rule of the rest."""

    known: Tensor  # eigenvalues
    shares: Tensor  # and their exact weights
    rest: float  # the weight of the others
    jacobi: Tridiagonal | None  # T, whose eigenvalues are the other nodes

    @classmethod
    def of(cls, nodes: Tensor, weights: Tensor, residuals: Tensor) -> _Run:
        """The run of these nodes; those without residual are eigenvalues."""
        settled = residuals == 0
        others, own = nodes[~settled], weights[~settled]
        total = float(own.sum())
        jacobi = None
        if len(others) and total > 0:
            # nodes and weights are the spectrum of T and what its first unit vector sees of it
            start = own.sqrt()[None]
            (jacobi,) = lanczos(Dense(torch.diag(others)), start, steps=len(others))
        return cls(nodes[settled], weights[settled], total, jacobi)

    def bounds(self, place: float) -> tuple[float, float]:
        """The least and the largest mass up to a place."""
        sure = float(self.shares[self.known <= place].sum())
        if self.jacobi is None:
            return sure, sure
        lower, upper = _extreme_masses(self.jacobi, place)
        return sure + lower * self.rest, sure + upper * self.rest


def _extreme_masses(jacobi: Tridiagonal, place: float) -> tuple[float, float]:
    """The least and the largest mass up to a place, of measures that have the moments of T."""
    matrix = jacobi.matrix()
    size = len(matrix)
    if size == 1:
        return 0.0, 1.0  # one moment says nothing

    # another last entry gives T an eigenvalue at the place: it is the root of the last pivot
    smaller = matrix[:-1, :-1] - place * torch.eye(size - 1, dtype=matrix.dtype)
    unit = torch.zeros(size - 1, dtype=matrix.dtype)
    unit[-1] = 1
    coupling = float(matrix[-1, -2]) ** 2
    solved, info = torch.linalg.solve_ex(smaller, unit)
    entry = place + coupling * float(solved[-1])
    span = float(matrix.abs().max())
    if int(info) or not math.isfinite(entry) or abs(entry) > _FAR * span:
        # the place is a node of the smaller matrix, and the last node of the other is at infinity
        matrix = matrix[:-1, :-1]
    else:
        matrix = matrix.clone()
        matrix[-1, -1] = entry

    nodes, vectors = torch.linalg.eigh(matrix)
    weights = vectors[0].square()
    own = int((nodes - place).abs().argmin())
    lower, upper = weights[:own].sum(), weights[: own + 1].sum()
    return float(lower), float(upper)
