"""A power law fitted to the tail of a spectrum, and what the same fit says of a semicircle.

M steps of Lanczos position M nodes over the range of the spectrum, about pi / M of half the range
apart in its middle. Finer structure they do not see, and zero, where most eigenvalues are, is such
structure: a node beside it stands for the whole peak. So the line is fitted above `RESOLVED` node
distances only, whatever was requested.

A short piece of any curve is straight on log axes. So there is no line through fewer than `FEWEST`
bins or less than `DECADES` of eigenvalues, and beside its R squared stands that of an exponential,
log density linear in |eigenvalue|, through the same bins.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from penchant_numerics.linear_algebra import Quadrature
from penchant_numerics.statistics import jackknife
from torch import Tensor

BINS = 12
FEWEST = 6  # bins with eigenvalues in them that a line is fitted to
DECADES = 1.0  # of eigenvalues that it spans at least
RESOLVED = 2.0  # node distances from zero above which a density is believed


class PowerLaw(NamedTuple):
    """log density = slope * log |eigenvalue| + intercept, through the bins that are not empty."""

    slope: float
    intercept: float
    fit: float  # R squared
    exponential: float  # R squared of an exponential through the same bins
    low: float  # |eigenvalue| where the window begins
    high: float  # and where it ends
    positions: Tensor  # (k,), log |eigenvalue| in the middle of a bin
    density: Tensor  # (k,), of |eigenvalue|


def resolved_from(measure: Quadrature) -> float:
    """The share of the largest |eigenvalue| from which on a density is resolved; 0 where exact."""
    if measure.complete or measure.variant == "exact":
        return 0.0
    return RESOLVED * math.pi / measure.steps


def power_law(measure: Quadrature, *, low: float, high: float) -> PowerLaw | None:
    """A line through the density of |eigenvalue|, both on log axes.

    Args:
        measure: The spectrum.
        low: Where the line begins, as a share of the largest |eigenvalue|; later where the measure
            does not resolve that.
        high: Where it ends.

    Returns:
        The line through the mass in bins of equal width on the log axis, mean over start vectors;
        None where fewer than `FEWEST` bins are filled or they span less than `DECADES`.

    >>> from penchant_numerics.linear_algebra import exact_quadrature
    >>> ranks = torch.arange(1, 20001, device="cpu")
    >>> pareto = ranks.div(20000.0).rsqrt()      # density ~ |eigenvalue|^-3
    >>> round(power_law(exact_quadrature(pareto), low=0.01, high=0.5).slope, 1)
    -3.0
    """
    # the window is relative to the largest, and not below what is resolved
    largest = max(float(nodes.abs().max()) for nodes in measure.nodes)
    low = max(low, resolved_from(measure))
    count = _bins(measure, low, high)
    if largest == 0 or count < FEWEST:
        return None
    edges = torch.linspace(
        math.log(low * largest),
        math.log(high * largest),
        count + 1,
        device="cpu",
        dtype=torch.float64,
    )
    density = _mass(measure, edges) / edges.exp().diff()

    # an empty bin has no logarithm
    filled = density > 0
    if int(filled.sum()) < FEWEST:
        return None
    # empty bins at an end do not belong to the window
    first, last = filled.nonzero()[[0, -1], 0].tolist()
    begin, end = float(edges[first]), float(edges[last + 1])
    if end - begin < DECADES * math.log(10) * (1 - 1e-9):
        return None
    middles = (edges[1:] + edges[:-1]) / 2
    positions = middles[filled]
    line = straight_line(positions, density[filled].log())
    exponential = straight_line(positions.exp(), density[filled].log())
    return PowerLaw(
        slope=line.slope,
        intercept=line.intercept,
        fit=line.fit,
        exponential=exponential.fit,
        low=math.exp(begin),
        high=math.exp(end),
        positions=positions,
        density=density[filled],
    )


def _bins(measure: Quadrature, low: float, high: float) -> int:
    """As many bins as have a node each, where bins are narrowest: at the low end."""
    if low >= high:
        return 0
    distance = resolved_from(measure) / RESOLVED
    if not distance:
        return BINS

    # bins are narrowest, in the eigenvalue, where they begin
    narrowest = math.log1p(distance / low)
    fitting = int(math.log(high / low) / narrowest)
    return min(BINS, fitting)


def _mass(measure: Quadrature, edges: Tensor) -> Tensor:
    """Mass of |eigenvalue| in bins on the log axis, mean over start vectors."""
    count = len(edges) - 1
    mass = torch.zeros(count, device="cpu", dtype=torch.float64)
    for nodes, weights in zip(measure.nodes, measure.weights):
        positions = nodes.abs().clamp(min=1e-300).log()

        # mass of both signs
        bins = torch.bucketize(positions, edges) - 1
        inside = (bins >= 0) & (bins < count)
        mass.index_add_(0, bins[inside], weights[inside] / len(measure.nodes))
    return mass


class LineErrors(NamedTuple):
    """Standard errors of a line."""

    slope: float
    fit: float
    exponential: float


def line_errors(measure: Quadrature, *, low: float, high: float) -> LineErrors | None:
    """Standard errors over start vectors and over where bins begin.

    The first by the jackknife, which needs three start vectors; the second, because nodes and bins
    have widths alike, by lines through bins that are shifted by quarters of their width.

    Args:
        measure: The spectrum.
        low: Where the line begins, as for `power_law`.
        high: Where it ends.

    Returns:
        The errors; None where no other line is defined.
    """
    begin = max(low, resolved_from(measure))
    shifted = _shifted_lines(measure, begin, high)
    if len(shifted) < 2:
        return None
    fewer = _lines_without_a_start(measure, low, high)
    errors = []
    for name in LineErrors._fields:
        by_position = [getattr(line, name) for line in shifted]
        by_start = [getattr(line, name) for line in fewer]
        errors.append(_combined(by_position, by_start))
    return LineErrors(*errors)


def _combined(shifted: list[float], fewer: list[float]) -> float:
    """The error of both kinds: of positions of bins, and of start vectors where they are known."""
    positions = torch.tensor(shifted, device="cpu").double()
    variance = float(positions.var())
    if fewer:
        of_starts = jackknife(fewer) or 0.0
        variance += of_starts**2
    return math.sqrt(variance)


def _shifted_lines(measure: Quadrature, low: float, high: float) -> list[PowerLaw]:
    """Lines through bins that begin up to a bin later, as they are where that is not possible."""
    # a bin's width on the log axis
    count = _bins(measure, low, high)
    if not count:
        return []
    width = math.log(high / low) / count
    lines = []
    for quarter in range(4):
        factor = math.exp(width * quarter / 4)
        line = power_law(measure, low=low * factor, high=min(1.0, high * factor))
        if line is not None:
            lines.append(line)
    return lines


def _lines_without_a_start(measure: Quadrature, low: float, high: float) -> list[PowerLaw]:
    """Lines with each start vector left out once; none with fewer than three."""
    count = len(measure.nodes)
    lines = []
    for number in range(count if count > 2 else 0):
        line = power_law(_without_start(measure, number), low=low, high=high)
        if line is not None:
            lines.append(line)
    return lines


def _without_start(measure: Quadrature, number: int) -> Quadrature:
    def others(values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (*values[:number], *values[number + 1 :])

    return replace(
        measure,
        nodes=others(measure.nodes),
        weights=others(measure.weights),
        residuals=others(measure.residuals),
    )


def semicircle_slope(*, low: float, high: float, points: int = 256) -> float:
    """The slope that a semicircle, sqrt(1 - x^2), has in the same window: hardly any.

    >>> round(semicircle_slope(low=0.01, high=0.1), 3)
    -0.002
    """
    # beyond its edge a semicircle has no density
    first, last = math.log(low), math.log(min(high, 0.999))
    positions = torch.linspace(first, last, points, device="cpu", dtype=torch.float64)
    heights = (1 - positions.exp().square()).sqrt()
    return straight_line(positions, heights.log()).slope


class Line(NamedTuple):
    """y = slope * x + intercept, and R squared."""

    slope: float
    intercept: float
    fit: float


def straight_line(x: Tensor, y: Tensor) -> Line:
    """The line of least squares through points (k,).

    >>> x = torch.tensor([0.0, 1.0, 2.0], device="cpu")
    >>> straight_line(x, 3 * x + 1)
    Line(slope=3.0, intercept=1.0, fit=1.0)
    """
    away = x - x.mean()
    up = y - y.mean()
    together = (away * up).sum()
    slope = float(together / away.square().sum())
    intercept = float(y.mean()) - slope * float(x.mean())

    # R squared: what the line explains of the spread
    left = y - slope * x - intercept
    spread = float(up.square().sum())
    fit = 1.0
    if spread > 0:
        fit = 1 - float(left.square().sum()) / spread
    return Line(slope, intercept, fit)
