r"""The spectral measure of an operator by Lanczos quadrature.

The Ritz values $\theta_j$, weighted by the squared first components $w_j$ of the eigenvectors of
$T$, are a Gauss quadrature: $\sum_j w_j f(\theta_j) \approx v^\top f(A) v$ for the start vector
$v$. The mean over random $v$ is $\operatorname{Tr} f(A) / \text{size}$. Variants:

- `full`: with reorthogonalisation; stores a basis of m vectors.
- `none`: stores three vectors. Use it for densities, never to count eigenvalues.
- `sample`: for $A = V V^\top$ with fewer columns than rows, the same for $V^\top V$, always with
  reorthogonalisation; zero eigenvalues are added by count.

An eigenvalue that every start vector finds, and whose weights are those of one eigenvector, is
simple: its weight is 1/size exactly, not a random number around it.

References: Lin, Saad and Yang, Approximating spectral densities of large matrices, SIAM Review
2016; Papyan, JMLR 2020, appendix C.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from penchant_numerics.device import memory
from penchant_numerics.linear_algebra.lanczos import Tridiagonal, lanczos, random_starts
from penchant_numerics.linear_algebra.operators import Factor, Operator
from penchant_numerics.refusal import Refusal
from torch import Tensor

VARIANTS = ("full", "none", "sample")
BASIS_SHARE = 0.25  # of the budget: bases that fit are stored, of start vectors that run together
_SETTLED = 256  # eigenvalues at most that are examined for being simple
_SAME = 1e-3  # relative difference of weights up to which they come from one eigenvector
_COPY = 64.0  # Ritz values this many roundings apart are one: rounding finds an eigenvalue again
_NEGLIGIBLE = 1e-14  # weights of nodes that only rounding made
_TINY = 1e-300  # keeps a sum of weights that is zero from being divided by


@dataclass(frozen=True)
class Quadrature:
    """Nodes and weights of a spectral measure: a list a start vector, weights that sum to one.

    Reference: Golub and Meurant, Matrices, Moments and Quadrature, 2010.

    >>> from penchant_numerics.linear_algebra import Dense
    >>> A = Dense(torch.diag(torch.tensor([1.0, 2.0, 6.0], device="cpu", dtype=torch.float64)))
    >>> measure = quadrature(A, steps=3, generator=torch.Generator("cpu").manual_seed(0))
    >>> measure.nodes[0].round(decimals=6).tolist(), measure.count(above=1.5)
    ([1.0, 2.0, 6.0], 2)
    """

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
        """Distinct eigenvalues above a number, of those found to a tolerance.

        Without reorthogonalisation Ritz values have ghosts, so nothing is counted.

        Args:
            above: The number.
            tolerance: Residual of what counts as found, relative to the range of the spectrum.
        """
        if self.variant == "none":
            raise Refusal(
                "eigenvalues are not counted without reorthogonalisation; "
                "use variant 'full' or 'sample'"
            )
        low, high = self.bounds
        width = tolerance * (high - low)
        counts = []
        for nodes, residuals in zip(self.nodes, self.residuals):
            counted = (nodes > above) & (residuals <= width)
            counts.append(int(counted.sum()))
        return max(counts)

    def mean(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Mean over start vectors of sum_j w_j f(theta_j): Tr f(A) / size."""
        sums = []
        for nodes, weights in zip(self.nodes, self.weights):
            values = weights * function(nodes)
            sums.append(values.sum())
        return torch.stack(sums).mean()


def quadrature(
    A: Operator,
    *,
    generator: torch.Generator,
    steps: int = 128,
    starts: int = 1,
    variant: str = "auto",
    basis_bytes: int | None = None,
    range_steps: int = 32,
    known: tuple[Tensor, Tensor] | None = None,
    zeros: int = 0,
) -> Quadrature:
    """The spectral measure of A from random start vectors.

    Args:
        A: The operator.
        generator: For start vectors.
        steps: Lanczos steps, at least 2.
        starts: Start vectors.
        variant: `full`, `none` or `sample`; `auto` is `sample` where A has a factor with fewer
            columns than rows, `full` while a basis fits, else `none`.
        basis_bytes: What bases may take; a share of the budget by default.
        range_steps: Steps after which the ends of the spectrum are read.
        known: Eigenpairs (values (r,), columns (size, r)); they have weight 1/size exactly, and
            start vectors are orthogonal to them.
        zeros: Eigenvalues zero that A leaves out, because it is a V^T V in sample space.

    Returns:
        The measure; it says which variant ran.

    >>> from penchant_numerics.linear_algebra import Dense
    >>> A = Dense(torch.eye(9, device="cpu", dtype=torch.float64))
    >>> measure = quadrature(A, steps=4, generator=torch.Generator("cpu").manual_seed(0))
    >>> round(float(measure.mean(lambda value: value)), 6)  # the mean eigenvalue
    1.0
    """
    if steps < 2 or starts < 1:
        raise Refusal(f"steps must be at least 2 and starts at least 1, found {steps} and {starts}")
    if basis_bytes is None:
        basis_bytes = int(BASIS_SHARE * memory.available(A.device))
    factor = A.factor()
    variant = _chosen(variant, A, factor, min(steps, A.size), basis_bytes)
    if variant != "sample":
        factor = None
    inner = A if factor is None else factor.gram()  # sample space, where vectors are shorter

    # runs from all start vectors
    vectors = random_starts(starts, inner, generator=generator)
    locked = None
    if known is not None:
        locked = _locked_rows(known[1], factor)
    runs, simple = _runs(
        inner,
        vectors,
        steps=steps,
        orthogonal=variant != "none",
        basis_bytes=basis_bytes,
        locked=locked,
    )
    # what is known by count, and what the runs saw
    exact = simple
    if known is not None:
        exact = torch.cat([known[0].to("cpu", torch.float64), simple])
    measure = _Measure(size=A.size + zeros, inner=inner.size, exact=exact, simple=simple)
    return measure.quadrature(
        runs,
        steps=steps,
        range_steps=range_steps,
        variant="sample" if zeros and variant == "full" else variant,
    )


def exact_quadrature(
    values: Tensor, *, zeros: int = 0, steps: int = 128, known: int = 0
) -> Quadrature:
    """The spectral measure of all eigenvalues, and of `zeros` zeros more.

    Args:
        values: The eigenvalues (n,).
        zeros: How many more there are that are zero.
        steps: Bumps of a density have the width that this many Lanczos steps would give.
        known: And that with this many leading eigenvalues deflated.

    Returns:
        The measure, of variant `exact`.

    >>> measure = exact_quadrature(torch.tensor([3.0, 1.0], device="cpu"), zeros=2)
    >>> float(measure.mean(lambda value: value)), measure.variant
    (1.0, 'exact')
    """
    # zeros are one node, whatever their number
    size = len(values) + zeros
    wide = values.to("cpu", torch.float64)
    nodes = torch.cat([wide, wide.new_zeros(min(zeros, 1))])
    weights = torch.full_like(nodes, 1 / size)
    if zeros:
        weights[-1] = zeros / size
    rest = nodes[known:] if known < len(nodes) else nodes
    return Quadrature(
        nodes=(nodes,),
        weights=(weights,),
        residuals=(torch.zeros_like(nodes),),
        size=size,
        steps=steps,
        variant="exact",
        complete=True,
        bounds=(float(nodes.min()), float(nodes.max())),
        bulk=(float(rest.min()), float(rest.max())),
        simple=nodes[: len(values)],
    )


# ---- how it runs


def _chosen(variant: str, A: Operator, factor: Factor | None, steps: int, basis_bytes: int) -> str:
    """The variant that runs; refuses one that cannot."""
    # sample space pays where it has fewer dimensions
    small = factor is not None and factor.samples < A.size
    if variant == "auto" and small:
        return "sample"
    if variant == "auto":
        fits = _basis_bytes(A, steps) <= basis_bytes
        return "full" if fits else "none"

    # the requested route, if it is possible
    if variant not in VARIANTS:
        known = ", ".join(VARIANTS)
        raise Refusal(f"variant must be auto or one of {known}, found {variant!r}")
    if variant == "sample" and not small:
        described = "no factor" if factor is None else f"{factor.samples} columns"
        raise Refusal(
            "sample space needs an operator V V^T with fewer columns than "
            f"its {A.size} rows, found {described}"
        )
    return variant


def _basis_bytes(A: Operator, steps: int) -> int:
    """Bytes of a basis of `steps` vectors."""
    numbers = steps * A.size
    bits = torch.finfo(A.dtype).bits
    return numbers * bits // 8


def _locked_rows(vectors: Tensor, factor: Factor | None) -> Tensor:
    """Known eigenvectors (size, r) as orthonormal rows, in sample space V^T x / sqrt(lambda)."""
    rows = vectors.T.contiguous()
    if factor is None:
        return rows
    # V^T x has the length sqrt(lambda)
    rows = factor.adjoint(rows)
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / lengths


def _runs(
    A: Operator,
    starts: Tensor,
    *,
    steps: int,
    orthogonal: bool,
    basis_bytes: int,
    locked: Tensor | None,
) -> tuple[list[Tridiagonal], Tensor]:
    """Tridiagonals without their bases, and the eigenvalues that turn out to be simple."""
    # as many together as their bases fit
    together = len(starts)
    if orthogonal:
        longest = min(steps, A.size)
        fitting = basis_bytes // _basis_bytes(A, longest)
        together = max(1, fitting)

    tridiagonals: list[Tridiagonal] = []
    settled = None
    for chunk in starts.split(together):
        runs = lanczos(A, chunk, steps=steps, orthogonal=orthogonal, locked=locked)
        # bases are long: the first one is used before the next is made
        if settled is None and orthogonal and len(starts) > 1:
            settled = _settled_pairs(runs[0])
        tridiagonals += [T.without_basis() for T in runs]
    if settled is None:
        return tridiagonals, torch.zeros(0, device="cpu", dtype=torch.float64)

    # the weights that these eigenvectors give each start vector
    values, vectors = settled
    if locked is not None:
        starts = starts - (starts @ locked.T) @ locked
    lengths = torch.linalg.vector_norm(starts, dim=1, keepdim=True)
    units = starts / lengths
    expected = (units @ vectors.T).double().square().cpu()
    simple = _are_simple(values, expected, tridiagonals)
    return tridiagonals, values[simple]


def _settled_pairs(T: Tridiagonal) -> tuple[Tensor, Tensor]:
    """Ritz values of a run that have converged, and their vectors as rows.

    Where there are many, the outermost are taken.
    """
    values, vectors = torch.linalg.eigh(T.matrix())
    residuals = T.next * vectors[-1].abs()
    largest = float(values.abs().max())
    tolerance = T.precision**0.5 * largest

    # how far out each is; those that have not converged come last
    middle = values.median()
    distances = (values - middle).abs()
    distances = distances.masked_fill(residuals > tolerance, -1.0)
    count = min(_SETTLED, len(values))
    outer = distances.topk(count)
    chosen = outer.indices[outer.values >= 0]

    # from Krylov space to the whole
    mix = vectors[:, chosen].T.to(T.basis)
    return values[chosen], mix @ T.basis


def _are_simple(values: Tensor, expected: Tensor, tridiagonals: list[Tridiagonal]) -> Tensor:
    """Which eigenvalues every run finds with the weight that one eigenvector gives it.

    `expected` are these weights, (starts, r).
    """
    simple = torch.ones(len(values), device="cpu", dtype=torch.bool)
    for weights, T in zip(expected[1:], tridiagonals[1:]):
        nodes, seen, _ = distinct(T)
        distances = (nodes - values[:, None]).abs()
        near = distances.argmin(1)

        # there is a node
        off = (nodes[near] - values).abs()
        there = off <= _tolerance(T, nodes)

        # and it weighs what it should
        weighed = seen[near]
        excess = (weighed - weights).abs()
        alike = excess <= _SAME * weighed
        simple &= there & alike
    return simple


# ---- what it found


def distinct(T: Tridiagonal) -> tuple[Tensor, Tensor, Tensor]:
    """Ritz values, weights and residuals, without copies.

    Copies of an eigenvalue are taken together, and nodes made by rounding are left out.
    """
    values, weights, residuals = T.ritz()

    # values of a group differ by rounding only
    largest = float(values.abs().max())
    rounding = _COPY * T.precision * largest
    separate = values.diff() > rounding
    begins = torch.cat([separate.new_zeros(1), separate])
    group = begins.cumsum(0)

    # a group has the weight of all, and their mean position
    count = int(group[-1]) + 1
    total = torch.zeros(count, device="cpu", dtype=torch.float64)
    total = total.index_add(0, group, weights)
    moment = torch.zeros_like(total)
    moment = moment.index_add(0, group, weights * values)
    position = moment / total.clamp(min=_TINY)

    # and the residual of its heaviest
    heaviest = torch.zeros_like(total)
    heaviest = heaviest.scatter_reduce(0, group, weights, "amax", include_self=False)
    main = weights == heaviest[group]
    bound = torch.zeros_like(total)
    bound = bound.scatter_reduce(0, group[main], residuals[main], "amin", include_self=False)
    counted = total > _NEGLIGIBLE
    return position[counted], total[counted], bound[counted]


def _tolerance(T: Tridiagonal, nodes: Tensor) -> float:
    """How much two Ritz values of one eigenvalue may differ."""
    largest = float(nodes.abs().max())
    root: float = T.precision**0.5
    return root * largest


@dataclass(frozen=True)
class _Measure:
    """A measure on R^size, of runs on R^inner and of eigenvalues whose weight is known by count."""

    size: int
    inner: int
    exact: Tensor  # eigenvalues of weight 1 / size each
    simple: Tensor  # those of them that the runs have found

    @property
    def zeros(self) -> int:
        """Eigenvalues zero that the runs do not see."""
        return max(0, self.size - self.inner)

    def quadrature(
        self, tridiagonals: list[Tridiagonal], *, steps: int, range_steps: int, variant: str
    ) -> Quadrature:
        """The quadrature of all runs."""
        nodes, weights, residuals = [], [], []
        for T in tridiagonals:
            own_nodes, own_weights, own_residuals = self._of_run(T)
            nodes.append(own_nodes)
            weights.append(own_weights)
            residuals.append(own_residuals)
        complete = map(_is_settled, tridiagonals, nodes, residuals)
        return Quadrature(
            nodes=tuple(nodes),
            weights=tuple(weights),
            residuals=tuple(residuals),
            size=self.size,
            steps=steps,
            variant=variant,
            complete=all(complete),
            bounds=self._bounds(tridiagonals, range_steps, self.exact),
            bulk=self._bounds(tridiagonals, range_steps, self.simple),
            simple=self.simple,
        )

    def _of_run(self, T: Tridiagonal) -> tuple[Tensor, Tensor, Tensor]:
        """Nodes, weights and residuals of one run, after what is known by count."""
        # known ones, of which zeros may be many
        atoms = self.exact
        shares = torch.full_like(atoms, 1 / self.size)
        if self.zeros:
            share = self.zeros / self.size
            zero = atoms.new_zeros(1)
            atoms = torch.cat([atoms, zero])
            shares = torch.cat([shares, shares.new_full((1,), share)])

        # what the run has seen, without those that are among the exact ones already
        values, weights, residuals = distinct(T)
        if len(self.simple):
            distances = (values[:, None] - self.simple).abs()
            nearest = distances.min(1).values
            away = nearest > _tolerance(T, values)
            values = values[away]
            weights = weights[away]
            residuals = residuals[away]

        # the others share what is left
        rest = (1 - shares.sum()).clamp(min=0)
        total = weights.sum().clamp(min=_TINY)
        weights = weights / total * rest
        no_residuals = torch.zeros_like(atoms)
        return (
            torch.cat([atoms, values]),
            torch.cat([shares, weights]),
            torch.cat([no_residuals, residuals]),
        )

    def _bounds(
        self, tridiagonals: list[Tridiagonal], steps: int, exact: Tensor
    ) -> tuple[float, float]:
        """Ends of the spectrum as the first steps see them, widened by their residuals.

        Eigenvalues that are known lie inside.
        """
        ends = exact.tolist()
        if self.zeros:
            ends.append(0.0)
        for T in tridiagonals:
            values, _, residuals = T.ritz(steps)
            lowest = values[0] - residuals[0]
            highest = values[-1] + residuals[-1]
            ends += [float(lowest), float(highest)]
        return min(ends), max(ends)


def _is_settled(T: Tridiagonal, nodes: Tensor, residuals: Tensor) -> bool:
    """Whether all nodes of a run are eigenvalues."""
    settled = residuals <= _tolerance(T, nodes)
    return bool(settled.all())
