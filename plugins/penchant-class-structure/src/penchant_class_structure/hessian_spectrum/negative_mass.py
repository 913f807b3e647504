"""The share of negative eigenvalues, as far as Lanczos knows signs.

m steps of Lanczos give a Gauss quadrature with nodes theta_j and weights w_j. For the spectral
measure F of its start vector Chebyshev, Markov and Stieltjes proved

    sum_{theta_j < theta_k} w_j <= F(theta_k -) <= F(theta_k) <= sum_{theta_j <= theta_k} w_j,

so between two nodes F is known but for the weights of these two. Beside zero, where a network's
Hessian has most of its eigenvalues, one node holds nearly all the weight, and the sign of that node
is arbitrary. So the mass below -delta is given, for the smallest delta at which the two bounds are
as near as requested.

Reference: Golub and Meurant, Matrices, Moments and Quadrature with Applications, 2010, section 6.1;
Szego, Orthogonal Polynomials, section 3.41.
"""

import math
from typing import NamedTuple

import torch
from penchant_numerics.linear_algebra import Quadrature
from torch import Tensor

_ROUNDING = 1e-6  # of the largest |eigenvalue|: where all eigenvalues are known, nearer ones are 0


# Nodes, ascending, their weights, and whether each is an eigenvalue of known mass.
Start = tuple[Tensor, Tensor, Tensor]


class NegativeMass(NamedTuple):
    """The share of eigenvalues below minus the resolution."""

    value: float
    stderr: float | None  # over start vectors and within the bounds; None where it is exact
    least: float  # bounds, mean over start vectors
    most: float
    resolution: float
    starts: int


def negative_mass(measure: Quadrature, *, uncertain: float) -> NegativeMass:
    """The mass below minus the resolution, and its bounds.

    Args:
        measure: The spectrum.
        uncertain: How much the bounds may differ; the resolution follows from it.

    >>> from penchant_numerics.linear_algebra import exact_quadrature
    >>> values = torch.tensor([2.0, 1.0, 0.0, -1.0], device="cpu")
    >>> found = negative_mass(exact_quadrature(values), uncertain=0.1)
    >>> found.value, found.stderr
    (0.25, None)
    """
    largest = max(abs(end) for end in measure.bounds)
    rounding = _ROUNDING * largest
    if measure.complete or measure.variant == "exact":
        return _counted(measure, rounding)

    # bounds, at a distance from zero where they say something
    resolution = _resolution(measure, uncertain, rounding)
    of_starts = []
    for start in _starts(measure):
        masses = _below(start, -resolution)
        of_starts.append(torch.stack(masses))
    bounds = torch.stack(of_starts)  # (starts, 3)
    least, _, most = bounds.mean(0).tolist()

    # inside the bounds anything is possible: a uniform distribution has width / sqrt(12)
    variance = (most - least) ** 2 / 12
    middles = (bounds[:, 0] + bounds[:, 2]) / 2
    count = len(bounds)
    if count > 1:
        variance += float(middles.var()) / count
    return NegativeMass(
        value=float(middles.mean()),
        stderr=math.sqrt(variance),
        least=least,
        most=most,
        resolution=resolution,
        starts=count,
    )


def _counted(measure: Quadrature, rounding: float) -> NegativeMass:
    """The share of eigenvalues that are all known."""
    shares = []
    for start in _starts(measure):
        _, likely, _ = _below(start, -rounding)
        shares.append(likely)
    share = float(torch.stack(shares).mean())
    return NegativeMass(
        value=share, stderr=None, least=share, most=share, resolution=rounding, starts=len(shares)
    )


def _starts(measure: Quadrature) -> list[Start]:
    """What is known from each start vector."""
    starts = []
    for nodes, weights, residuals in zip(measure.nodes, measure.weights, measure.residuals):
        # known eigenvalues have no residual
        order = nodes.argsort()
        starts.append((nodes[order], weights[order], residuals[order] == 0))
    return starts


def _below(start: Start, position: float) -> tuple[Tensor, Tensor, Tensor]:
    """The least, the likely and the largest mass below a position."""
    nodes, weights, known = start
    below = nodes <= position

    # eigenvalues of known mass are on one side or the other
    sure = weights[known & below].sum()

    # of the others the two nodes beside the position are in doubt
    rest = weights[~known]
    inside = int(below[~known].sum())
    before = max(0, inside - 1)
    least = rest[:before].sum()
    likely = rest[:inside].sum()
    most = rest[: inside + 1].sum()
    return sure + least, sure + likely, sure + most


def _resolution(measure: Quadrature, uncertain: float, rounding: float) -> float:
    """The smallest distance from zero at which the bounds are near enough."""
    starts = _starts(measure)

    # between two nodes nothing changes: only their positions are tried
    negative = torch.cat([-nodes[nodes < 0] for nodes, _, _ in starts]).sort().values
    positions: list[float] = [rounding, *negative.tolist()]
    for position in positions:
        # a little beyond a node, so that it lies above
        beyond = max(rounding, position * (1 + 1e-9))
        width = 0.0
        for start in starts:
            least, _, most = _below(start, -beyond)
            width += float(most - least) / len(starts)
        if width <= uncertain:
            return beyond
    return beyond
