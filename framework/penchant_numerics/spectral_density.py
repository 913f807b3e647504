"""Spectral densities of an operator by Lanczos quadrature, of the eigenvalue and of its logarithm.

Ritz values theta_j, weighted by the squared first components w_j of T's eigenvectors, are Gauss quadrature for the spectrum of A as
the start vector v sees it: sum_j w_j f(theta_j) ~ v^T f(A) v, whose mean over random v is Tr f(A) / size. Variants:

- `full`: reorthogonalised; keeps a basis of m vectors.
- `none`: three vectors. Good for densities, never for counting.
- `sample`: for A = V V^T with fewer columns than rows, the same for V^T V, always reorthogonalised; the zeros are added by count.

An eigenvalue that every start vector finds, and whose weights are those of one eigenvector, is simple: its weight is 1/size
exactly, not a random number around it.

A density puts a Gaussian bump on every node. The spectrum is mapped to [-1, 1] with a margin of 0.05 of the range on both sides;
bumps have the width 2 / ((M - 1) sqrt(8 ln kappa)) there, M the steps; the range is that without known eigenvalues, which deflation
takes away. On the grid stand means over its cells, so that the sum times the
spacing is the mass however narrow the bumps. The log density has bumps at log(|theta| + epsilon), without the factor 1/theta
printed in the paper: it is a density in the logarithm and integrates to one.

References: Lin, Saad and Yang, Approximating spectral densities of large matrices, SIAM Review 2016; Papyan, JMLR 2020, appendix C.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from penchant_numerics.lanczos import Tridiagonal, lanczos, random_starts
from penchant_numerics.operators import Factor, Operator
from torch import Tensor

VARIANTS = ("full", "none", "sample")
BASIS_BYTES = 2**31  # bases up to this size are kept, of the start vectors that run together
_SETTLED = 256  # eigenvalues at most that are examined for being simple
_SAME = 1e-3  # relative difference of weights up to which they come from one eigenvector
_COPY = 64.0  # Ritz values this many roundings apart are one: rounding finds an eigenvalue again
_NEGLIGIBLE = 1e-14  # weights of nodes that only rounding made
_TAIL = 6.0  # widths between the outermost node and the end of the grid: 1e-9 of a bump is beyond


@dataclass(frozen=True)
class Quadrature:
    """Nodes and weights of the spectral measure of an operator: one row of lists per start vector, weights of each sum to one."""

    nodes: tuple[Tensor, ...]  # per start vector (m,)
    weights: tuple[Tensor, ...]
    residuals: tuple[Tensor, ...]
    size: int
    steps: int
    variant: str
    complete: bool  # every node is an eigenvalue: more steps would change nothing
    bounds: tuple[float, float]  # of the spectrum, from the first steps
    bulk: tuple[float, float]  # of what is left of it without known pairs: sets the width of bumps
    simple: Tensor  # eigenvalues known to be simple, whose weight is exact

    def count(self, *, above: float, tolerance: float = 1e-3) -> int:
        """Distinct eigenvalues above a number, of those found to a `tolerance` relative to the range.

        Without reorthogonalisation Ritz values have ghosts, so nothing is counted.
        """
        if self.variant == "none":
            raise ValueError(
                "eigenvalues are not counted without reorthogonalisation; use variant 'full' or 'sample'"
            )
        width = tolerance * (self.bounds[1] - self.bounds[0])
        return max(
            int(((nodes > above) & (residuals <= width)).sum())
            for nodes, residuals in zip(self.nodes, self.residuals)
        )

    def mean(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Mean over start vectors of sum_j w_j f(theta_j): Tr f(A) / size."""
        return torch.stack(
            [(weights * function(nodes)).sum() for nodes, weights in zip(self.nodes, self.weights)]
        ).mean()


def quadrature(
    A: Operator,
    *,
    generator: torch.Generator,
    steps: int = 128,
    starts: int = 1,
    variant: str = "auto",
    basis_bytes: int = BASIS_BYTES,
    range_steps: int = 32,
    known: tuple[Tensor, Tensor] | None = None,
    zeros: int = 0,
) -> Quadrature:
    """The spectral measure of A from random start vectors.

    `auto` is `sample` where A has a factor with fewer columns than rows, `full` while a basis fits in `basis_bytes`, else
    `none`; the result says which ran. `known` eigenpairs (values (r,), columns (size, r)) have weight 1/size exactly, and
    start vectors are orthogonal to them. `zeros` eigenvalues that A leaves out, because it is a V^T V in sample space, are added.
    """
    if steps < 2 or starts < 1:
        raise ValueError(
            f"steps must be at least 2 and starts at least 1, found {steps} and {starts}"
        )
    factor = A.factor()
    variant = _chosen(variant, A, factor, min(steps, A.size), basis_bytes)
    inner = factor.gram() if variant == "sample" and factor is not None else A
    locked = None if known is None else _locked_rows(known, factor if variant == "sample" else None)
    vectors = random_starts(starts, inner, generator=generator)
    width = min(steps, inner.size) * inner.size * torch.finfo(inner.dtype).bits // 8
    together = starts if variant == "none" else max(1, basis_bytes // width)
    found, simple = _runs(
        inner, vectors, steps=steps, orthogonal=variant != "none", together=together, locked=locked
    )
    exact = simple if known is None else torch.cat([known[0].to("cpu", torch.float64), simple])
    size = A.size + zeros
    nodes, weights, residuals = _measure(found, size, inner.size, exact, simple)
    complete = all(
        bool((each <= _tolerance(T, places)).all())
        for T, places, each in zip(found, nodes, residuals)
    )
    bulk = _bounds(found, range_steps, simple, zeros=inner.size < size)
    bounds = _bounds(found, range_steps, exact, zeros=inner.size < size)
    variant = "sample" if zeros and variant == "full" else variant
    return Quadrature(
        nodes, weights, residuals, size, steps, variant, complete, bounds, bulk, simple
    )


def exact_quadrature(
    values: Tensor, *, zeros: int = 0, steps: int = 128, known: int = 0
) -> Quadrature:
    """The spectral measure of all eigenvalues (n,) and of so many zeros more.

    Bumps have the width that `steps` would give, with the first `known` eigenvalues deflated.

    >>> measure = exact_quadrature(torch.tensor([3.0, 1.0], device="cpu"), zeros=2)
    >>> float(measure.mean(lambda value: value)), measure.variant
    (1.0, 'exact')
    """
    size = len(values) + zeros
    nodes = torch.cat(
        [
            values.to("cpu", torch.float64),
            torch.zeros(min(zeros, 1), device="cpu", dtype=torch.float64),
        ]
    )
    weights = torch.full_like(nodes, 1 / size)
    if zeros:
        weights[-1] = zeros / size
    rest = nodes[known:] if known < len(nodes) else nodes
    bounds, bulk = ((float(each.min()), float(each.max())) for each in (nodes, rest))
    return Quadrature(
        (nodes,),
        (weights,),
        (torch.zeros_like(nodes),),
        size,
        steps,
        "exact",
        True,
        bounds,
        bulk,
        nodes[: len(values)],
    )


def _runs(
    A: Operator,
    starts: Tensor,
    *,
    steps: int,
    orthogonal: bool,
    together: int,
    locked: Tensor | None,
) -> tuple[list[Tridiagonal], Tensor]:
    """Tridiagonals without their bases, and the eigenvalues that turn out to be simple."""
    found: list[Tridiagonal] = []
    values, vectors = None, None
    for part in starts.split(together):
        runs = lanczos(A, part, steps=steps, orthogonal=orthogonal, locked=locked)
        if vectors is None and orthogonal and len(starts) > 1:
            values, vectors = _settled_vectors(runs[0])
        found += [T.without_basis() for T in runs]
    if vectors is None:
        return found, torch.zeros(0, device="cpu", dtype=torch.float64)
    if locked is not None:
        starts = starts - (starts @ locked.T) @ locked
    unit = starts / torch.linalg.vector_norm(starts, dim=1, keepdim=True)
    return found, values[_are_simple(values, (unit @ vectors.T).double().square().cpu(), found)]


def distinct(T: Tridiagonal) -> tuple[Tensor, Tensor, Tensor]:
    """Ritz values, weights and residuals, with copies of an eigenvalue taken together and nodes made by rounding left out."""
    values, weights, residuals = T.ritz()
    apart = values.diff() > _COPY * T.precision * float(values.abs().max())
    group = torch.cat([apart.new_zeros(1), apart]).cumsum(0)
    total = torch.zeros(int(group[-1]) + 1, device="cpu", dtype=torch.float64).index_add(
        0, group, weights
    )
    place = torch.zeros_like(total).index_add(0, group, weights * values) / total.clamp(min=1e-300)
    largest = torch.zeros_like(total).scatter_reduce(0, group, weights, "amax", include_self=False)
    main = weights == largest[group]
    bound = torch.zeros_like(total).scatter_reduce(
        0, group[main], residuals[main], "amin", include_self=False
    )
    kept = total > _NEGLIGIBLE
    return place[kept], total[kept], bound[kept]


def _settled_vectors(T: Tridiagonal) -> tuple[Tensor, Tensor]:
    """Ritz values of a run that have converged, and their vectors as rows; the outermost, where there are many."""
    values, vectors = torch.linalg.eigh(T.matrix())
    residuals = T.next * vectors[-1].abs()
    tolerance = torch.finfo(T.basis.dtype).eps ** 0.5 * float(values.abs().max())
    outer = (
        (values - values.median())
        .abs()
        .masked_fill(residuals > tolerance, -1.0)
        .topk(min(_SETTLED, len(values)))
    )
    chosen = outer.indices[outer.values >= 0]
    return values[chosen], vectors[:, chosen].T.to(T.basis) @ T.basis


def _are_simple(values: Tensor, expected: Tensor, found: list[Tridiagonal]) -> Tensor:
    """Which eigenvalues every run finds with the weight (starts, r) that one eigenvector gives it."""
    simple = torch.ones(len(values), device="cpu", dtype=torch.bool)
    for weights, T in zip(expected[1:], found[1:]):
        nodes, seen, _ = distinct(T)
        near = (nodes - values[:, None]).abs().argmin(1)
        simple &= (nodes[near] - values).abs() <= _tolerance(T, nodes)
        simple &= (seen[near] - weights).abs() <= _SAME * seen[near]
    return simple


def _chosen(variant: str, A: Operator, factor: Factor | None, steps: int, basis_bytes: int) -> str:
    small = factor is not None and factor.samples < A.size
    if variant == "auto":
        fits = steps * A.size * torch.finfo(A.dtype).bits // 8 <= basis_bytes
        return "sample" if small else "full" if fits else "none"
    if variant not in VARIANTS:
        raise ValueError(f"variant must be auto or one of {', '.join(VARIANTS)}, found {variant!r}")
    if variant == "sample" and not small:
        found = "no factor" if factor is None else f"{factor.samples} columns"
        raise ValueError(
            f"sample space needs an operator V V^T with fewer columns than its {A.size} rows, found {found}"
        )
    return variant


def _locked_rows(known: tuple[Tensor, Tensor], factor: Factor | None) -> Tensor:
    """Known eigenvectors as orthonormal rows, in sample space V^T x / sqrt(lambda)."""
    rows = known[1].T.contiguous()
    if factor is not None:
        rows = factor.adjoint(rows)
        rows = rows / torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows


def _tolerance(T: Tridiagonal, nodes: Tensor) -> float:
    """How far two findings of one eigenvalue may be apart."""
    return T.precision**0.5 * float(nodes.abs().max())


def _measure(
    found: list[Tridiagonal], size: int, inner: int, exact: Tensor, simple: Tensor
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Nodes, weights and residuals on R^size from runs on R^inner: exact eigenvalues, and zeros of sample space, by count."""
    zeros = 1 if inner < size else 0
    atoms = torch.cat([exact, exact.new_zeros(zeros)])
    shares = torch.cat(
        [torch.full_like(exact, 1 / size), exact.new_full((zeros,), (size - inner) / size)]
    )
    measures = []
    for T in found:
        values, weights, residuals = distinct(T)
        if len(simple):
            away = (values[:, None] - simple).abs().min(1).values > _tolerance(T, values)
            values, weights, residuals = values[away], weights[away], residuals[away]
        weights = weights / weights.sum().clamp(min=1e-300) * (1 - shares.sum()).clamp(min=0)
        pieces = (atoms, values), (shares, weights), (torch.zeros_like(atoms), residuals)
        measures.append(tuple(torch.cat(pair) for pair in pieces))
    nodes, weights, residuals = zip(*measures)
    return nodes, weights, residuals


def _bounds(
    found: list[Tridiagonal], steps: int, exact: Tensor, *, zeros: bool
) -> tuple[float, float]:
    """Ends of the spectrum as the first steps see them, widened by their residuals; known eigenvalues lie inside."""
    early = [T.ritz(steps) for T in found]
    ends = [
        float(value)
        for values, _, residuals in early
        for value in (values[0] - residuals[0], values[-1] + residuals[-1])
    ]
    ends += exact.tolist() + [0.0] * zeros
    return min(ends), max(ends)


@dataclass(frozen=True)
class Density:
    """A density on a uniform grid, of the eigenvalue or, with `log`, of log(|eigenvalue| + epsilon)."""

    grid: Tensor  # (points,), double precision, on the CPU
    density: Tensor  # (points,), mean over start vectors
    stderr: Tensor | None  # (points,), over start vectors; nothing with a single one
    width: float  # standard deviation of a bump, in the grid's unit
    variant: str  # of Lanczos that ran
    starts: int
    log: bool = False
    epsilon: float | None = None

    @property
    def spacing(self) -> float:
        return float(self.grid[1] - self.grid[0])

    def mass(self, low: float = -math.inf, high: float = math.inf) -> float:
        """The share of eigenvalues in (low, high), from whole cells."""
        inside = (self.grid > low) & (self.grid < high)
        return float(self.density[inside].sum()) * self.spacing


def spectral_density(
    measure: Quadrature,
    *,
    points: int = 1024,
    kappa: float = 3.0,
    margin: float = 0.05,
    grid: Tensor | None = None,
) -> Density:
    """The density of eigenvalues, on a uniform grid of its own or on a given one.

    >>> from penchant_numerics.operators import Dense
    >>> A = Dense(torch.diag(torch.linspace(0, 1, 50, device="cpu", dtype=torch.float64)))
    >>> density = spectral_density(quadrature(A, steps=20, generator=torch.Generator("cpu").manual_seed(0)))
    >>> round(density.mass(), 6), density.variant
    (1.0, 'full')
    """
    low = min(measure.bounds[0], *(float(nodes.min()) for nodes in measure.nodes))
    high = max(measure.bounds[1], *(float(nodes.max()) for nodes in measure.nodes))
    return _smoothed(
        measure, measure.nodes, (low, high), measure.bulk, points, kappa, margin, grid=grid
    )


def log_density(
    measure: Quadrature,
    *,
    epsilon: float = 1e-5,
    points: int = 1024,
    kappa: float = 3.0,
    margin: float = 0.05,
    grid: Tensor | None = None,
) -> Density:
    """The density of log(|eigenvalue| + epsilon)."""
    if epsilon <= 0:
        raise ValueError(f"epsilon must be positive, found {epsilon}")
    places = tuple((nodes.abs() + epsilon).log() for nodes in measure.nodes)
    ends = (min(float(each.min()) for each in places), max(float(each.max()) for each in places))
    return _smoothed(measure, places, ends, ends, points, kappa, margin, epsilon=epsilon, grid=grid)


def _smoothed(
    measure: Quadrature,
    places: tuple[Tensor, ...],
    ends: tuple[float, float],
    bulk: tuple[float, float],
    points: int,
    kappa: float,
    margin: float,
    *,
    epsilon: float | None = None,
    grid: Tensor | None = None,
) -> Density:
    low, high = ends
    extent = (high - low) or abs(high) or 1.0  # a multiple of the identity has no range
    centre, half = (low + high) / 2, extent / 2 * (1 + 2 * margin)
    sigma = (
        2
        / ((measure.steps - 1) * math.sqrt(8 * math.log(kappa)))
        * ((bulk[1] - bulk[0]) or extent)
        / 2
        * (1 + 2 * margin)
    )
    reach = max(half, extent / 2 + _TAIL * sigma)  # few steps make bumps wider than the margin
    if grid is None:
        grid = torch.linspace(
            centre - reach, centre + reach, points, device="cpu", dtype=torch.float64
        )
    each = torch.stack(
        [_bumps(grid, place, weight, sigma) for place, weight in zip(places, measure.weights)]
    )
    stderr = each.std(0) / math.sqrt(len(each)) if len(each) > 1 else None
    return Density(
        grid, each.mean(0), stderr, sigma, measure.variant, len(each), epsilon is not None, epsilon
    )


def _bumps(grid: Tensor, places: Tensor, weights: Tensor, sigma: float) -> Tensor:
    """Mean density in each cell of the grid of weighted Gaussians."""
    spacing = float(grid[1] - grid[0])
    edges = torch.cat([grid - spacing / 2, grid[-1:] + spacing / 2])
    below = torch.special.ndtr((edges[:, None] - places) / sigma)  # (points + 1, nodes)
    return (below.diff(dim=0) * weights).sum(1) / spacing
