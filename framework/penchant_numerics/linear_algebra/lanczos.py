"""Lanczos tridiagonalisation of a symmetric operator, from several start vectors at once.

m steps from a unit vector v give an orthonormal basis Q of the Krylov space of v, and T = Q^T A Q,
tridiagonal, whose eigenvalues are the Ritz values. With full reorthogonalisation Q is stored, and
its vectors are made orthogonal to all before them, twice. Without, three vectors are enough, but
converged eigenvalues come again as ghosts.

Reference: Papyan, JMLR 2020, appendix C.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from penchant_numerics.device import accumulation_dtype
from penchant_numerics.linear_algebra.operators import Operator
from torch import Tensor

_BREAKDOWN = 64.0  # a new direction this many roundings long is no direction
_Number = float | Tensor  # of the host, or one that waits on a device
_READ_EVERY = 16  # steps after which numbers of a device are read: the host waits for them


@dataclass(frozen=True)
class Tridiagonal:
    """T of one start vector, and what is known of the basis."""

    diagonal: Tensor  # (m,)
    off: Tensor  # (m - 1,)
    next: float  # the norm that would come next
    orthogonal: bool  # the basis was reorthogonalised
    complete: bool  # the Krylov space closed before all steps were made: nodes are eigenvalues
    precision: float  # of the vectors: the rounding error of 1
    basis: Tensor | None  # (m, size) rows

    def matrix(self, steps: int | None = None) -> Tensor:
        """T, or its leading block after `steps` steps."""
        m = len(self.diagonal)
        if steps is not None:
            m = min(steps, m)
        middle = torch.diag(self.diagonal[:m])
        off = self.off[: m - 1]
        above = torch.diag(off, 1)
        below = torch.diag(off, -1)
        return middle + above + below

    def without_basis(self) -> Tridiagonal:
        """The same without what takes memory."""
        return replace(self, basis=None)

    def ritz(self, steps: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Ritz values after all, or the first, steps.

        Returns:
            The values, ascending, their quadrature weights, and bounds on their residuals.
        """
        matrix = self.matrix(steps)
        values, vectors = torch.linalg.eigh(matrix)
        # the norm that comes after the last step
        m = len(values)
        beyond = self.next
        if m < len(self.diagonal):
            beyond = float(self.off[m - 1])
        weights = vectors[0].square()
        residuals = beyond * vectors[-1].abs()
        return values, weights, residuals


class _Run:
    """Lanczos from one start vector; products come from outside so that several runs share them."""

    def __init__(
        self, start: Tensor, steps: int, *, orthogonal: bool, locked: Tensor | None
    ) -> None:
        self.steps = steps
        self.orthogonal = orthogonal
        self.locked = locked
        self.complete = False
        self.made = 0  # steps, of which the last may wait to be read
        self.alphas: list[float] = []
        self.betas: list[float] = []
        self._unread: list[tuple[_Number, _Number]] = []
        self._read_every = 1 if start.device.type == "cpu" else _READ_EVERY
        self.basis: Tensor | None = None
        if orthogonal:
            self.basis = start.new_empty(steps, len(start))

        # the first vector
        start = self._unlocked(start)
        self.previous: Tensor | None = None
        self.vector = start / _norm(start)
        self._beta: _Number = 0.0

    @property
    def running(self) -> bool:
        """Whether another product is needed."""
        steps_left = self.made < self.steps
        return steps_left and not self.complete

    def absorb(self, product: Tensor) -> None:
        """One step, given A times the current vector."""
        # without its components along the last two vectors
        w = product
        if self.previous is not None:
            w = product - self._beta * self.previous
        alpha = _dot(self.vector, w)
        w = self._unlocked(w - alpha * self.vector)

        # and, with a basis, along all of them
        if self.basis is not None:
            self.basis[self.made] = self.vector
            w = _reorthogonalised(w, self.basis[: self.made + 1])

        # a new direction that is only rounding ends the run
        self._beta = _norm(w)
        self._unread.append((alpha, self._beta))
        self.made += 1
        ended = self.made == self.steps
        if ended or self.made % self._read_every == 0:
            self._read()
        if not self.complete:
            self.previous = self.vector
            self.vector = w / _above_zero(self._beta)

    def _read(self) -> None:
        """Take in the numbers of the last steps, but for those after the end of the run."""
        rounding = _BREAKDOWN * torch.finfo(self.vector.dtype).eps
        for alpha, beta in _fetched(self._unread):
            self.alphas.append(alpha)
            self.betas.append(beta)
            # how large a new direction must be to be one
            seen = (*self.alphas, *self.betas)
            scale = max(map(abs, seen))
            self.complete = beta <= rounding * scale
            if self.complete:
                break
        # steps behind the end are forgotten
        self._unread = []

    def _unlocked(self, w: Tensor) -> Tensor:
        """A vector without its component in the locked space."""
        if self.locked is None:
            return w
        inner = self.locked @ w
        return w - self.locked.T @ inner

    def tridiagonal(self) -> Tridiagonal:
        """What the steps so far have found."""
        made = len(self.alphas)
        diagonal = torch.tensor(self.alphas, device="cpu", dtype=torch.float64)
        off = torch.tensor(self.betas, device="cpu", dtype=torch.float64)
        # the last norm leads out of the space, where that has not closed
        beyond = self.betas[-1]
        if self.complete:
            beyond = 0.0
        return Tridiagonal(
            diagonal=diagonal,
            off=off[: made - 1],
            next=beyond,
            orthogonal=self.orthogonal,
            complete=self.complete,
            precision=torch.finfo(self.vector.dtype).eps,
            basis=None if self.basis is None else self.basis[:made],
        )


def lanczos(
    A: Operator,
    starts: Tensor,
    *,
    steps: int,
    orthogonal: bool = True,
    together: int | None = None,
    locked: Tensor | None = None,
) -> list[Tridiagonal]:
    """Tridiagonal matrices, one a start vector; a run whose Krylov space closes stops there.

    Args:
        A: The operator.
        starts: Start vectors, as rows (k, size).
        steps: Steps of each run.
        orthogonal: Whether bases are stored and reorthogonalised.
        together: How many runs go at a time; None is all.
        locked: Orthonormal rows (r, size) that are projected out of every vector.

    Returns:
        The matrices, in the order of the start vectors.

    >>> from penchant_numerics.linear_algebra import Dense
    >>> A = Dense(torch.diag(torch.tensor([1.0, 2.0, 2.0], device="cpu", dtype=torch.float64)))
    >>> (T,) = lanczos(A, torch.ones(1, 3, device="cpu", dtype=torch.float64), steps=3)
    >>> [round(float(value), 6) for value in T.ritz()[0]]  # two distinct eigenvalues: two nodes
    [1.0, 2.0]
    >>> T.complete
    True
    """
    length = min(steps, A.size)
    tridiagonals = []
    for chunk in starts.split(together or len(starts)):
        runs = [_Run(start, length, orthogonal=orthogonal, locked=locked) for start in chunk]
        while active := [run for run in runs if run.running]:
            # runs that still go share a product with a block
            block = torch.stack([run.vector for run in active])
            for run, product in zip(active, A.multiply_rows(block)):
                run.absorb(product)
        tridiagonals += [run.tridiagonal() for run in runs]
    return tridiagonals


def _dot(a: Tensor, b: Tensor) -> _Number:
    """The inner product, added up in double precision."""
    wide = accumulation_dtype(a.device)
    products = a * b
    total = products.sum(dtype=wide)
    return _number(total)


def _norm(a: Tensor) -> _Number:
    """The length, added up in double precision."""
    wide = accumulation_dtype(a.device)
    length = torch.linalg.vector_norm(a, dtype=wide)
    return _number(length)


def _number(value: Tensor) -> _Number:
    """A number that costs no wait: of the host where it is there already."""
    if value.device.type == "cpu":
        return float(value)
    return value


def _above_zero(value: _Number) -> _Number:
    """Something to divide by: where the end of a run is seen late, its next vector is 0."""
    if isinstance(value, Tensor):
        smallest = torch.finfo(value.dtype).tiny
        return value.clamp(min=smallest)
    return value


def _reorthogonalised(w: Tensor, basis: Tensor) -> Tensor:
    """A vector without its components along the rows of a basis."""
    # twice is enough (Giraud et al., 2005)
    for _ in range(2):
        inner = basis @ w
        w = w - basis.T @ inner
    return w


def _fetched(pairs: list[tuple[_Number, _Number]]) -> list[tuple[float, float]]:
    """Pairs of numbers in the host's memory, fetched from a device at once."""
    waiting = []
    for pair in pairs:
        alpha, beta = pair
        if isinstance(alpha, Tensor) and isinstance(beta, Tensor):
            waiting.append(torch.stack((alpha, beta)))
    # the host waits once for all of them
    numbers = pairs
    if waiting:
        numbers = torch.stack(waiting).tolist()
    return [(float(alpha), float(beta)) for alpha, beta in numbers]


def random_starts(count: int, like: Operator, *, generator: torch.Generator) -> Tensor:
    """Gaussian vectors, sampled one after another on the CPU: more of them extend fewer.

    Args:
        count: How many.
        like: The operator they are for.
        generator: What they are sampled from.

    Returns:
        Rows (count, size).
    """
    rows = []
    for _ in range(count):
        row = torch.randn(like.size, generator=generator, device="cpu", dtype=like.dtype)
        rows.append(row)
    return torch.stack(rows).to(like.device)
