"""Spectral densities of an operator, of the eigenvalue and of its logarithm.

A density puts a Gaussian bump on every node of a quadrature (`lanczos_quadrature`). The spectrum is
mapped to [-1, 1] with a margin of 0.05 of the range on both sides; bumps have the width
2 / ((M - 1) sqrt(8 ln kappa)) there, M the steps; the range is that without known eigenvalues,
which deflation takes away. On the grid stand means over its cells, so that the sum times the
spacing is the mass however narrow the bumps. The log density has bumps at log(|theta| + epsilon),
without the factor 1/theta printed in the paper: it is a density in the logarithm and integrates to
one.

References: Lin, Saad and Yang, Approximating spectral densities of large matrices, SIAM Review
2016; Papyan, JMLR 2020, appendix C.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from penchant_numerics.linear_algebra.lanczos_quadrature import Quadrature
from penchant_numerics.refusal import Refusal
from torch import Tensor

_ROUNDING = 1e-12  # of eigenvalues: ends that are nearer are one
_TAIL = 6.0  # widths between the outermost node and the end of the grid: 1e-9 of a bump is beyond


@dataclass(frozen=True)
class Density:
    """A density on a uniform grid.

    It is one of the eigenvalue or, with `log`, of log(|eigenvalue| + epsilon).

    >>> grid = torch.linspace(0, 1, 5, device="cpu")
    >>> density = Density(grid, torch.ones(5), None, width=0.1, variant="full", starts=1)
    >>> density.spacing, density.mass(high=0.6)
    (0.25, 0.75)
    """

    grid: Tensor  # (points,), double precision, on the CPU
    density: Tensor  # (points,), mean over start vectors
    stderr: Tensor | None  # (points,), over start vectors; None with a single one
    width: float  # standard deviation of a bump, in the grid's unit
    variant: str  # of Lanczos that ran
    starts: int
    log: bool = False
    epsilon: float | None = None

    @property
    def spacing(self) -> float:
        """From one point of the grid to the next."""
        first, second = self.grid[:2]
        return float(second - first)

    def mass(self, low: float = -math.inf, high: float = math.inf) -> float:
        """The share of eigenvalues in (low, high), from whole cells."""
        inside = (self.grid > low) & (self.grid < high)
        cells = self.density[inside]
        total = float(cells.sum())
        return total * self.spacing


def spectral_density(
    measure: Quadrature,
    *,
    points: int = 1024,
    kappa: float = 3.0,
    margin: float = 0.05,
    grid: Tensor | None = None,
) -> Density:
    """The density of eigenvalues.

    Args:
        measure: The spectral measure.
        points: Points of the grid.
        kappa: Sets the width of bumps.
        margin: Share of the range that is left free on both sides.
        grid: A uniform grid to use instead of its own.

    Returns:
        The density on the grid.

    >>> from penchant_numerics.linear_algebra import Dense, quadrature
    >>> A = Dense(torch.diag(torch.linspace(0, 1, 50, device="cpu", dtype=torch.float64)))
    >>> measure = quadrature(A, steps=20, generator=torch.Generator("cpu").manual_seed(0))
    >>> density = spectral_density(measure)
    >>> round(density.mass(), 6), density.variant
    (1.0, 'full')
    """
    # later steps may find what is further out than the first
    low, high = measure.bounds
    for nodes in measure.nodes:
        low = min(low, float(nodes.min()))
        high = max(high, float(nodes.max()))
    bumps = Bumps.of(measure, (low, high), measure.bulk, kappa=kappa, margin=margin)
    if grid is None:
        grid = bumps.grid(points)
    return bumps.density(measure, measure.nodes, grid)


def log_density(
    measure: Quadrature,
    *,
    epsilon: float = 1e-5,
    points: int = 1024,
    kappa: float = 3.0,
    margin: float = 0.05,
    grid: Tensor | None = None,
) -> Density:
    """The density of log(|eigenvalue| + epsilon).

    Args:
        measure: The spectral measure.
        epsilon: What is added, positive.
        points: Points of the grid.
        kappa: Sets the width of bumps.
        margin: Share of the range that is left free on both sides.
        grid: A uniform grid to use instead of its own.

    Returns:
        The density on the grid, in the natural logarithm.

    >>> from penchant_numerics.linear_algebra import Dense, quadrature
    >>> A = Dense(torch.logspace(-4, 0, 50, device="cpu", dtype=torch.float64).diag())
    >>> measure = quadrature(A, steps=30, generator=torch.Generator("cpu").manual_seed(0))
    >>> density = log_density(measure, epsilon=1e-6)
    >>> density.log, round(density.mass(), 4)
    (True, 1.0)
    """
    if epsilon <= 0:
        raise Refusal(f"epsilon must be positive, found {epsilon}")
    positions = []
    for nodes in measure.nodes:
        sizes = nodes.abs() + epsilon
        positions.append(sizes.log())

    # here no interval of the range is deflated
    low = min(float(each.min()) for each in positions)
    high = max(float(each.max()) for each in positions)
    bumps = Bumps.of(measure, (low, high), (low, high), kappa=kappa, margin=margin)
    if grid is None:
        grid = bumps.grid(points)
    # the same bumps, at other positions
    density = bumps.density(measure, positions, grid)
    return replace(density, log=True, epsilon=epsilon)


def _range(low: float, high: float) -> float:
    """The distance of two ends; a multiple of the identity has no range but rounding."""
    distance = high - low
    largest = max(abs(low), abs(high))
    if distance > _ROUNDING * largest:
        return distance
    return 0.0


@dataclass(frozen=True)
class Bumps:
    """Gaussian bumps of one width, and how far they reach."""

    width: float
    centre: float
    reach: float

    @classmethod
    def of(
        cls,
        measure: Quadrature,
        ends: tuple[float, float],
        bulk: tuple[float, float],
        *,
        kappa: float,
        margin: float,
    ) -> Bumps:
        """The bumps of a measure.

        Args:
            measure: It has the number of steps.
            ends: Of all positions.
            bulk: Of those that set the width.
            kappa: Sets the width.
            margin: Share of the range that is left free on both sides.

        Returns:
            Bumps as wide as this many steps resolve.
        """
        # what has no range is as wide as it is large
        low, high = ends
        extent = _range(low, high) or abs(high) or 1.0
        widened = 1 + 2 * margin
        half = extent / 2 * widened

        # the width that this many steps resolve
        inside = _range(*bulk) or extent
        sharpness = math.sqrt(8 * math.log(kappa))
        relative = 2 / ((measure.steps - 1) * sharpness)
        width = relative * inside / 2 * widened

        # few steps make bumps wider than the margin
        needed = extent / 2 + _TAIL * width
        reach = max(half, needed)
        centre = (low + high) / 2
        return cls(width, centre, reach)

    def grid(self, points: int) -> Tensor:
        """A grid that all bumps are on."""
        return torch.linspace(
            self.centre - self.reach,
            self.centre + self.reach,
            points,
            device="cpu",
            dtype=torch.float64,
        )

    def density(self, measure: Quadrature, positions: Sequence[Tensor], grid: Tensor) -> Density:
        """The mean over start vectors of bumps at their positions.

        Args:
            measure: It has the weights.
            positions: Where the nodes of each start vector stand.
            grid: The points.

        Returns:
            The density, with its standard error where there are several start vectors.
        """
        densities = []
        for position, weights in zip(positions, measure.weights):
            densities.append(self._cells(grid, position, weights))
        each = torch.stack(densities)
        starts = len(each)

        # one start vector has no error
        stderr = None
        if starts > 1:
            stderr = each.std(0) / math.sqrt(starts)
        return Density(
            grid=grid,
            density=each.mean(0),
            stderr=stderr,
            width=self.width,
            variant=measure.variant,
            starts=starts,
        )

    def _cells(self, grid: Tensor, positions: Tensor, weights: Tensor) -> Tensor:
        """Mean density in each cell of the grid of weighted Gaussians."""
        spacing = float(grid[1] - grid[0])
        half = spacing / 2
        lower = grid - half
        last = grid[-1:] + half
        edges = torch.cat([lower, last])

        # the share of each bump below each edge, (points + 1, nodes)
        distances = (edges[:, None] - positions) / self.width
        below: Tensor = torch.special.ndtr(distances)
        shares = below.diff(dim=0) * weights
        return shares.sum(1) / spacing
