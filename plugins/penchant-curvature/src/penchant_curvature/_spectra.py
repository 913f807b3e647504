"""Spectra that can be laid over each other: one grid in the logarithm, bumps of one width, whatever way the eigenvalues were found.

An operator whose eigenvalues are affordable has them all, each of weight 1/size; others are seen by Lanczos quadrature
(`penchant_numerics.spectral_density`), with a standard error over start vectors; a node that is no eigenvalue but stands for many is as wide as half
the way to the next of them, because nothing finer is known. Eigenvalues stand at log10(|lambda| + floor), so that zeros, which
every curvature of few samples has, pile up at the left end. The density is one in the logarithm and integrates to one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from penchant_numerics.operators import Operator
from penchant_numerics.spectral_density import quadrature
from torch import Tensor

from penchant_curvature._curvature_operator import Curvature

_RESOLVED = 1e-2  # residual, relative to the node, up to which a Ritz value is an eigenvalue
_FINE = 16  # cells a grid point into which eigenvalues are sorted before they are smoothed


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues and weights that sum to one: a list where they are exact, one a start vector else."""

    nodes: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]
    resolved: tuple[Tensor, ...]  # whether a node is an eigenvalue
    exact: bool

    @property
    def largest(self) -> float:
        return max(float(each.abs().max()) for each in self.nodes)


def spectrum(
    A: Operator, *, generator: torch.Generator, steps: int = 128, starts: int = 2
) -> Spectrum:
    """The spectrum of A: exact where it is affordable, else by Lanczos."""
    values = A.exact_spectrum() if isinstance(A, Curvature) else None
    if values is None:
        found = quadrature(A, generator=generator, steps=steps, starts=starts)
        resolved = tuple(
            each <= _RESOLVED * nodes.abs() for each, nodes in zip(found.residuals, found.nodes)
        )
        return Spectrum(found.nodes, found.weights, resolved, exact=False)
    nodes = torch.cat([values, values.new_zeros(1)]).to("cpu", torch.float64)
    weights = torch.full_like(nodes, 1 / A.size)
    weights[-1] = (A.size - len(values)) / A.size
    return Spectrum((nodes,), (weights,), (torch.ones_like(nodes, dtype=torch.bool),), exact=True)


@dataclass(frozen=True)
class LogGrid:
    """Cells of equal width in log10(eigenvalue + floor), for several spectra."""

    centres: Tensor  # (points,)
    floor: float
    width: float  # standard deviation of a bump

    @property
    def spacing(self) -> float:
        return float(self.centres[1] - self.centres[0])

    @property
    def edges(self) -> Tensor:
        return torch.cat([self.centres - self.spacing / 2, self.centres[-1:] + self.spacing / 2])

    def bumps(self, places: Tensor, weights: Tensor, widths: Tensor) -> Tensor:
        """Mean density in each cell of weighted Gaussians; what would lie beyond the ends is put into the cells there."""
        below = torch.special.ndtr((self.edges[:, None] - places) / widths)
        below[0], below[-1] = 0.0, 1.0
        return (below.diff(dim=0) * weights).sum(1) / self.spacing


def common_grid(
    spectra: list[Spectrum],
    *,
    floor: float,
    points: int,
    steps: int,
    kappa: float = 3.0,
    margin: float = 0.05,
) -> LogGrid:
    """A grid from `floor` times the largest eigenvalue of the first spectrum to the largest of all; bumps as for Lanczos of `steps`."""
    smallest = floor * (spectra[0].largest or 1.0)
    low, high = math.log10(smallest), math.log10(max(each.largest for each in spectra) + smallest)
    half = max(high - low, 1e-3) / 2 * (1 + 2 * margin)
    width = 2 / ((steps - 1) * math.sqrt(8 * math.log(kappa))) * half
    reach = max(half, (high - low) / 2 + 6 * width)
    centre = (low + high) / 2
    return LogGrid(
        torch.linspace(centre - reach, centre + reach, points, device="cpu", dtype=torch.float64),
        smallest,
        width,
    )


def log_density(found: Spectrum, grid: LogGrid) -> tuple[Tensor, Tensor | None]:
    """Density on the grid, and its standard error over start vectors where there are several."""
    smooth = _sorted_and_smoothed if found.exact else _smoothed
    each = torch.stack(
        [smooth(*parts, grid) for parts in zip(found.nodes, found.weights, found.resolved)]
    )
    return each.mean(0), each.std(0) / math.sqrt(len(each)) if len(each) > 1 else None


def _smoothed(nodes: Tensor, weights: Tensor, resolved: Tensor, grid: LogGrid) -> Tensor:
    """Mean density in each cell of Gaussian bumps; unresolved nodes reach half the way to others of their kind."""
    places, order = (nodes.abs() + grid.floor).log10().sort()
    many = ~resolved[order]
    apart = places.diff() * (many[1:] & many[:-1])
    end = places.new_zeros(1)
    reach = torch.maximum(torch.cat([end, apart]), torch.cat([apart, end])) / 2
    return grid.bumps(places, weights[order], (reach.square() + grid.width**2).sqrt())


def _sorted_and_smoothed(nodes: Tensor, weights: Tensor, resolved: Tensor, grid: LogGrid) -> Tensor:
    """The same for eigenvalues, which may be millions: first they are sorted into finer cells."""
    low, step, count = float(grid.edges[0]), grid.spacing / _FINE, len(grid.centres) * _FINE
    cells = (((nodes.abs() + grid.floor).log10() - low) / step).long().clamp(0, count - 1)
    mass = torch.zeros(count, device="cpu", dtype=torch.float64).index_add(0, cells, weights)
    used = torch.nonzero(mass)[:, 0]
    return grid.bumps(
        low + (used + 0.5) * step, mass[used], torch.full_like(mass[used], grid.width)
    )


def largest_gap(values: Tensor, *, classes: int) -> tuple[int, float]:
    """How many eigenvalues stand out: the position in 2..2C of the largest gap in log eigenvalue, and its ratio.

    >>> largest_gap(torch.tensor([9.0, 8.0, 7.0, 0.5, 0.4], device="cpu"), classes=2)
    (3, 14.0)
    """
    last = min(2 * classes, len(values) - 1)
    positive = values.clamp(min=torch.finfo(values.dtype).tiny)
    if last < 2:
        return len(values), 1.0
    ratios = positive[1:last] / positive[2 : last + 1]
    at = int(ratios.argmax())
    return at + 2, float(ratios[at])


def overlap(first: Tensor, second: Tensor) -> float:
    """|U^T V|^2 / k of orthonormal columns (size, k): 1 for equal spaces, k / size for random ones."""
    return float((first.T @ second.to(first)).square().sum()) / min(first.shape[1], second.shape[1])
