"""Questions that several probes ask of a spectrum.

Where is its largest gap? How much do two eigenspaces share? How do several spectra look on one
grid? A spectrum here is a `Quadrature`: all eigenvalues (`exact_quadrature`), or what Lanczos saw.

The log grid places eigenvalues at log10(|lambda| + floor), so that zeros, which every curvature of
few samples has, pile up at its left end. Densities on it are densities in the logarithm and
integrate to one. A node that is no eigenvalue but stands for many is as wide as half the way to the
next of them, because nothing finer is known.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from penchant_numerics.linear_algebra.lanczos_quadrature import Quadrature
from penchant_numerics.linear_algebra.spectral_density import Density, log_density
from penchant_numerics.refusal import Refusal
from torch import Tensor

RESOLVED = 1e-2  # residual, relative to the node, up to which a Ritz value is an eigenvalue
_FINE = 16  # cells a grid point into which eigenvalues are sorted before they are smoothed
_SHORTEST = 1e-3  # decades that a log grid spans at least
_TAIL = 6.0  # widths of a bump between the outermost node and the end of the grid


class Gap(NamedTuple):
    """A gap in a descending spectrum.

    >>> largest_gap(torch.tensor([9.0, 8.0, 1.0, 0.9], device="cpu"), first=1, last=3).position
    2
    """

    position: int  # eigenvalues in front of it
    ratio: float  # of the eigenvalues on its two sides
    margin: float  # of this ratio to the next largest in the window


def largest_gap(values: Tensor, *, first: int, last: int, floor: float | None = None) -> Gap:
    r"""The largest gap in the logarithm of eigenvalues, the largest $\lambda_k / \lambda_{k+1}$.

    Args:
        values: Eigenvalues (m,), descending.
        first: The fewest eigenvalues that may stand in front of the gap, at least 1.
        last: The most that may; fewer where there are no positive eigenvalues behind them.
        floor: Eigenvalues below it count as it, so that a fall to zero is a gap too. Without it
            the window ends where the positive eigenvalues do.

    Returns:
        Where the gap is, its ratio, and the ratio of that to the next largest of the window.

    >>> largest_gap(torch.tensor([9.0, 8.0, 7.0, 1.0, 0.5], device="cpu"), first=2, last=4)[:2]
    (3, 7.0)
    """
    clamped = values.double()
    if floor is not None:
        clamped = clamped.clamp(min=floor)

    # a ratio needs a positive eigenvalue behind the gap
    positive = int((clamped > 0).sum())
    last = min(last, positive - 1)
    if last < first:
        raise Refusal(
            f"a gap after {first} or more eigenvalues needs {first + 1} that are positive, "
            f"found {positive}"
        )

    # across each gap of the window, the largest first
    before = clamped[first - 1 : last]
    behind = clamped[first : last + 1]
    ratios, positions = (before / behind).sort(descending=True, stable=True)

    # the next largest tells how far it stands out
    largest = float(ratios[0])
    second = 1.0
    if len(ratios) > 1:
        second = float(ratios[1])
    position = first + int(positions[0])
    return Gap(position, largest, largest / second)


def trace_ratios(values: Tensor) -> Tensor:
    """T_k for every k (m,): the share of the k largest eigenvalues in the sum of all (m,).

    >>> trace_ratios(torch.tensor([1.0, 3.0], device="cpu")).tolist()
    [0.75, 1.0]
    """
    largest_first, _ = values.double().sort(descending=True)
    total = largest_first.sum()
    # on the host: CUDA has no deterministic kernel for cumulative sums
    sums = largest_first.cpu().cumsum(0)
    return sums.to(values.device) / total


def subspace_overlap(first: Tensor, second: Tensor) -> float:
    r"""The overlap $|U^\top V|^2 / k$ of the spans of orthonormal columns (size, k).

    It is 1 for equal spaces and k / size for random ones.

    >>> axes = torch.eye(4, device="cpu")
    >>> subspace_overlap(axes[:, :2], axes[:, 1:3])
    0.5
    """
    inner = first.T @ second.to(first)
    shared = inner.square().sum()
    smaller = min(first.shape[1], second.shape[1])
    return float(shared) / smaller


def nested_overlaps(first: Tensor, second: Tensor) -> Tensor:
    r"""$|U_k V_k^\top|^2 / k$ of the first k rows of two orthonormal bases (m, size), by k (m,).

    It is 1 for equal spaces and k / size for random ones.

    >>> axes = torch.eye(3, device="cpu")
    >>> nested_overlaps(axes, axes[[1, 0, 2]]).tolist()
    [0.0, 1.0, 1.0]
    """
    squares = (first @ second.T).square()
    # the sum over the first k rows and columns stands at (k, k); on the host, because CUDA has no
    # deterministic kernel for cumulative sums
    sums = squares.cpu().cumsum(0).cumsum(1)
    nested = sums.diagonal().to(squares.device)
    last = len(nested)
    counts = torch.arange(1, last + 1, device=nested.device, dtype=nested.dtype)
    return nested / counts


def share_in_span(values: Tensor, vectors: Tensor, rows: Tensor, products: Tensor) -> float:
    """How much of the leading eigenvectors of G = V V^T lies in the span of some V u.

    An eigenvector of G is x = V y / sqrt(lambda) for the eigenvector y of K = V^T V, so that
    (V u)^T x = sqrt(lambda) u y: everything is known in sample space.

    Args:
        values: Eigenvalues (k,) of K.
        vectors: Its eigenvectors y as orthonormal rows (k, samples).
        rows: The vectors u (r, samples); they may be dependent.
        products: Their inner products u K u^T (r, r), in double precision on the CPU.

    Returns:
        The mean squared length of the k unit vectors x projected on the span: 0 to 1.

    >>> K = torch.diag(torch.tensor([4.0, 1.0, 0.0], device="cpu", dtype=torch.float64))
    >>> u = torch.tensor([[1.0, 0.0, 0.0]], device="cpu", dtype=torch.float64)
    >>> values, vectors = torch.tensor([4.0, 1.0], device="cpu").double(), K[:2].sign()
    >>> share_in_span(values, vectors, u, u @ K @ u.T)  # the first of two eigenvectors, no more
    0.5
    """
    # an orthonormal basis of the span; dependent rows leave lengths of rounding
    lengths, axes = torch.linalg.eigh(products)
    rounding = 64 * torch.finfo(rows.dtype).eps
    nonzero = lengths > rounding * lengths[-1]

    # the eigenvectors along it
    between = (rows.double() @ vectors.double().T).cpu()  # (r, k)
    roots = values.clamp(min=0).sqrt()
    along = axes[:, nonzero].T @ (between * roots)
    scales = lengths[nonzero].rsqrt()
    inside = scales[:, None] * along

    # the mean over eigenvectors
    total = inside.square().sum()
    return float(total / len(values))


def spanning_grid(grids: Sequence[Tensor], *, points: int | None = None) -> Tensor:
    """One uniform grid from the lowest to the highest point of several, of as many points.

    >>> first, second = torch.tensor([[0.0, 1.0, 2.0], [1.0, 3.0, 5.0]], device="cpu")
    >>> spanning_grid([first, second]).tolist()
    [0.0, 2.5, 5.0]
    """
    low = min(float(grid[0]) for grid in grids)
    high = max(float(grid[-1]) for grid in grids)
    if points is None:
        points = len(grids[0])
    return torch.linspace(low, high, points, device="cpu", dtype=torch.float64)


def log_densities(
    measures: Mapping[str, Quadrature],
    *,
    epsilon: float = 1e-5,
    points: int = 1024,
    kappa: float = 3.0,
) -> dict[str, Density]:
    """Densities of log(|eigenvalue| + epsilon) of several operators on one grid.

    Each has the bumps that its own range and steps give it (`spectral_density.log_density`).

    Args:
        measures: Spectral measures by name.
        epsilon: What is added to |eigenvalue| before its logarithm is taken.
        points: Points of the grid.
        kappa: Sets the width of bumps.

    Returns:
        The densities by name, all with the same grid.

    >>> from penchant_numerics.linear_algebra import Dense, quadrature
    >>> eigenvalues = torch.logspace(-3, 0, 20, device="cpu", dtype=torch.float64)
    >>> draw = torch.Generator("cpu").manual_seed(0)
    >>> measures = {
    ...     name: quadrature(Dense(scale * eigenvalues.diag()), steps=10, generator=draw)
    ...     for name, scale in {"G": 1.0, "10 G": 10.0}.items()
    ... }
    >>> densities = log_densities(measures)
    >>> torch.equal(densities["G"].grid, densities["10 G"].grid)
    True
    >>> [round(each.mass(), 4) for each in densities.values()]
    [1.0, 1.0]
    """

    def density(measure: Quadrature, grid: Tensor | None = None) -> Density:
        return log_density(measure, epsilon=epsilon, points=points, kappa=kappa, grid=grid)

    own = [density(measure).grid for measure in measures.values()]
    grid = spanning_grid(own, points=points)
    densities = {}
    for name, measure in measures.items():
        densities[name] = density(measure, grid)
    return densities


@dataclass(frozen=True)
class LogGrid:
    """Cells of equal width in log10(|eigenvalue| + floor), and bumps of one width, for all."""

    centres: Tensor  # (points,), double precision, on the CPU
    floor: float
    width: float  # standard deviation of a bump, in decades

    @property
    def spacing(self) -> float:
        """Decades from one centre to the next."""
        first, second = self.centres[:2]
        return float(second - first)

    @property
    def edges(self) -> Tensor:
        """Ends of the cells (points + 1,)."""
        half = self.spacing / 2
        lower = self.centres - half
        last = self.centres[-1:] + half
        return torch.cat([lower, last])

    def density(self, measure: Quadrature) -> tuple[Tensor, Tensor | None]:
        """The density (points,), and its standard error over start vectors where it has several."""
        densities = []
        for nodes, weights, residuals in zip(measure.nodes, measure.weights, measure.residuals):
            if measure.variant == "exact":
                # eigenvalues may be millions
                density = self._sorted_and_smoothed(nodes, weights)
            else:
                # a node with a larger residual stands for many eigenvalues
                resolved = residuals <= RESOLVED * nodes.abs()
                density = self._smoothed(nodes, weights, resolved)
            densities.append(density)

        # the mean over start vectors, where there are several
        runs = torch.stack(densities)
        stderr = None
        if len(runs) > 1:
            stderr = runs.std(0) / math.sqrt(len(runs))
        return runs.mean(0), stderr

    def _positions(self, nodes: Tensor) -> Tensor:
        """Where eigenvalues stand on the grid."""
        sizes = nodes.abs() + self.floor
        return sizes.log10()

    def _smoothed(self, nodes: Tensor, weights: Tensor, resolved: Tensor) -> Tensor:
        """Gaussian bumps; unresolved nodes reach half the way to others of their kind."""
        positions = self._positions(nodes)
        positions, order = positions.sort()
        many = ~resolved[order]

        # distances between neighbours that both stand for many
        both = many[1:] & many[:-1]
        gaps = positions.diff() * both

        # to the left, and to the right
        end = positions.new_zeros(1)
        left = torch.cat([end, gaps])
        right = torch.cat([gaps, end])
        reach = torch.maximum(left, right) / 2

        # a bump cannot be narrower than all others
        variances = reach.square() + self.width**2
        widths = variances.sqrt()
        return self._bumps(positions, weights[order], widths)

    def _sorted_and_smoothed(self, nodes: Tensor, weights: Tensor) -> Tensor:
        """The same for eigenvalues, which may be millions: first they are put in finer cells."""
        low = float(self.edges[0])
        step = self.spacing / _FINE
        count = len(self.centres) * _FINE

        # the mass in each fine cell
        cells = (self._positions(nodes) - low) / step
        cells = cells.long().clamp(0, count - 1)
        mass = torch.zeros(count, device="cpu", dtype=torch.float64)
        mass = mass.index_add(0, cells, weights)

        # a bump at the middle of each that has any
        used = torch.nonzero(mass)[:, 0]
        positions = low + (used + 0.5) * step
        widths = torch.full_like(mass[used], self.width)
        return self._bumps(positions, mass[used], widths)

    def _bumps(self, positions: Tensor, weights: Tensor, widths: Tensor) -> Tensor:
        """Mean density in each cell of weighted Gaussians; what lies beyond is in the end cells."""
        distances = (self.edges[:, None] - positions) / widths
        below = torch.special.ndtr(distances)  # (points + 1, nodes)

        # nothing is lost beyond the ends
        below[0] = 0.0
        below[-1] = 1.0
        shares = below.diff(dim=0) * weights
        bumps: Tensor = shares.sum(1) / self.spacing
        return bumps


def common_log_grid(
    measures: Sequence[Quadrature],
    *,
    floor: float,
    points: int,
    steps: int,
    kappa: float = 3.0,
    margin: float = 0.05,
) -> LogGrid:
    """A log grid for several spectra, from the floor to the largest eigenvalue of all.

    Args:
        measures: The spectra; the first sets the floor.
        floor: What is added to |eigenvalue|, relative to the largest of the first spectrum.
        points: Cells of the grid.
        steps: Bumps are as wide as Lanczos with this many steps makes them.
        kappa: Sets the width of bumps.
        margin: Share of the range that is left free on both sides.

    Returns:
        The grid; `LogGrid.density` gives each spectrum on it.

    >>> from penchant_numerics.linear_algebra import Dense, quadrature
    >>> A = Dense(torch.logspace(-3, 0, 20, device="cpu", dtype=torch.float64).diag())
    >>> measure = quadrature(A, steps=10, generator=torch.Generator("cpu").manual_seed(0))
    >>> grid = common_log_grid([measure], floor=1e-4, points=64, steps=10)
    >>> len(grid.centres), bool(grid.centres[0] < -4), bool(grid.centres[-1] > 0)
    (64, True, True)
    """
    largest = [_largest(measure) for measure in measures]
    smallest = floor * (largest[0] or 1.0)
    low = math.log10(smallest)
    high = math.log10(max(largest) + smallest)

    # bumps are a fixed share of the range
    span = max(high - low, _SHORTEST)
    half = span / 2 * (1 + 2 * margin)
    sharpness = math.sqrt(8 * math.log(kappa))
    width = 2 / ((steps - 1) * sharpness) * half

    # few steps make bumps wider than the margin
    needed = (high - low) / 2 + _TAIL * width
    reach = max(half, needed)
    centre = (low + high) / 2
    centres = torch.linspace(
        centre - reach, centre + reach, points, device="cpu", dtype=torch.float64
    )
    return LogGrid(centres, smallest, width)


def _largest(measure: Quadrature) -> float:
    """The largest absolute value of a node."""
    sizes = []
    for nodes in measure.nodes:
        sizes.append(float(nodes.abs().max()))
    return max(sizes)
