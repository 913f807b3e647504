"""How much of a spectrum lies below a number: bounds that Lanczos proves, and what it cannot tell.

m nodes and weights of Gauss quadrature know 2 m moments of the spectral measure of their start
vector, and no more. Among all measures with these moments, the mass up to x is largest and least
for the one that has a node at x itself (Chebyshev, Markov and Stieltjes): with its nodes t_j,

    sum_{t_j < x} w_j  <=  F(x -)  <=  F(x)  <=  sum_{t_j <= x} w_j.

The bounds are apart by the weight of the node at x, which is the Christoffel function there: the
resolution of the quadrature. They hold for the measure that the start vector sees; the mean over
start vectors estimates the bounds of the whole spectrum, with a standard error. Eigenvalues whose
weight is known by count add no uncertainty.

Beside a large mass at one position (the null space of a Hessian) the sign of a node says nothing.
So the mass below a threshold is given as two numbers: what is below it by more than the resolution,
and what is within.

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
    # start vector by start vector: each sees a measure of its own
    positions = at.to("cpu", torch.float64).flatten()
    lower, upper = [], []
    for nodes, weights, residuals in zip(measure.nodes, measure.weights, measure.residuals):
        run = _Run.of(nodes, weights, residuals)
        pairs = [run.bounds(position) for position in positions.tolist()]
        bounds = torch.tensor(pairs, device="cpu", dtype=torch.float64)
        lower.append(bounds[:, 0])
        upper.append(bounds[:, 1])

    # their means are the bounds of the whole spectrum
    return CumulativeBounds(
        lower=torch.stack(lower).mean(0),
        upper=torch.stack(upper).mean(0),
        lower_stderr=_stderr(lower),
        upper_stderr=_stderr(upper),
    )


def mass_below(
    measure: Quadrature,
    threshold: float = 0.0,
    *,
    resolution: float | None = None,
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

    # what is proved of the part that is below
    end = torch.tensor([threshold - resolution], device="cpu", dtype=torch.float64)
    bounds = cumulative_bounds(measure, end)
    below_stderr = _stderr(below)
    within_stderr = _stderr(within)
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
        largest = max(abs(low), abs(high))
        return torch.finfo(torch.float64).eps * largest
    return (high - low) / measure.steps


def _stderr(values: list[Tensor]) -> Tensor | None:
    """The standard error of a mean over start vectors."""
    count = len(values)
    if count < 2:
        return None
    spread = torch.stack(values).std(0)
    return spread / math.sqrt(count)


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
        others = nodes[~settled]
        own = weights[~settled]
        total = float(own.sum())
        jacobi = None
        if total > 0:
            # nodes and weights are the spectrum of T and what its first unit vector sees of it
            A = Dense(torch.diag(others))
            start = own.sqrt()
            (jacobi,) = lanczos(A, start[None], steps=len(others))
        return cls(
            known=nodes[settled],
            shares=weights[settled],
            rest=total,
            jacobi=jacobi,
        )

    def bounds(self, position: float) -> tuple[float, float]:
        """The least and the largest mass up to a position."""
        inside = self.known <= position
        sure = float(self.shares[inside].sum())
        if self.jacobi is None:
            return sure, sure

        # of the rest only bounds are known
        lower, upper = _extreme_masses(self.jacobi, position)
        least = sure + lower * self.rest
        most = sure + upper * self.rest
        return least, most


def _extreme_masses(jacobi: Tridiagonal, position: float) -> tuple[float, float]:
    """The least and the largest mass up to a position, of measures that have the moments of T."""
    matrix = jacobi.matrix()
    # one moment says nothing
    if len(matrix) == 1:
        return 0.0, 1.0

    # the quadrature that has a node at the position
    changed = _with_node_at(matrix, position)
    nodes, vectors = torch.linalg.eigh(changed)
    weights = vectors[0].square()

    # the mass before the node at the position, and with it
    own = int((nodes - position).abs().argmin())
    lower = weights[:own].sum()
    upper = weights[: own + 1].sum()
    return float(lower), float(upper)


def _with_node_at(matrix: Tensor, position: float) -> Tensor:
    """A tridiagonal matrix with another last entry, which gives it an eigenvalue at a position."""
    # the entry is x + b^2 (T' - x)^-1 at its last corner, T' the smaller matrix
    smaller = matrix[:-1, :-1]
    size = len(smaller)
    identity = torch.eye(size, device="cpu", dtype=matrix.dtype)
    shifted = smaller - position * identity
    solved, info = torch.linalg.solve_ex(shifted, identity[-1])
    coupling = float(matrix[-1, -2]) ** 2
    entry = position + coupling * float(solved[-1])

    # the position is a node of the smaller matrix: the last node of the larger is at infinity
    finite = int(info) == 0 and math.isfinite(entry)
    largest = float(matrix.abs().max())
    far = abs(entry) > _FAR * largest
    if far or not finite:
        return smaller

    # else only the last entry is another one
    changed = matrix.clone()
    changed[-1, -1] = entry
    return changed
