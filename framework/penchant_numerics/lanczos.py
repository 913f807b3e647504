"""Lanczos tridiagonalisation of a symmetric operator, from several start vectors at once.

m steps from a unit vector v give an orthonormal basis Q of the Krylov space of v, and T = Q^T A Q, tridiagonal, whose eigenvalues
are the Ritz values. With full reorthogonalisation Q is kept, and its vectors are made orthogonal to all before them, twice.
Without, three vectors are enough, but converged eigenvalues come again as ghosts. Reference: Papyan, JMLR 2020, appendix C.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from penchant_numerics.moments import accumulation_dtype
from penchant_numerics.operators import Operator
from torch import Tensor

_BREAKDOWN = 64.0  # a new direction this many roundings long is no direction


@dataclass(frozen=True)
class Tridiagonal:
    """T of one start vector: its diagonals, the norm that would come next, and whether the basis was kept orthogonal."""

    diagonal: Tensor  # (m,)
    off: Tensor  # (m - 1,)
    next: float
    orthogonal: bool
    complete: bool  # the Krylov space closed before all steps were made: nodes are eigenvalues
    precision: float  # of the vectors: the rounding error of 1
    basis: Tensor | None  # (m, size) rows

    def matrix(self, steps: int | None = None) -> Tensor:
        """T, or its leading block after so many steps."""
        m = len(self.diagonal) if steps is None else min(steps, len(self.diagonal))
        off = self.off[: m - 1]
        return torch.diag(self.diagonal[:m]) + torch.diag(off, 1) + torch.diag(off, -1)

    def without_basis(self) -> Tridiagonal:
        return replace(self, basis=None)

    def ritz(self, steps: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Eigenvalues, ascending, their quadrature weights, and bounds on their residuals, after all or the first `steps`."""
        values, vectors = torch.linalg.eigh(self.matrix(steps))
        m = len(values)
        beyond = self.next if m == len(self.diagonal) else float(self.off[m - 1])
        return values, vectors[0].square(), beyond * vectors[-1].abs()


class _Run:
    """Lanczos from one start vector, fed with products from outside so that several runs share blocks."""

    def __init__(
        self, start: Tensor, steps: int, *, orthogonal: bool, locked: Tensor | None
    ) -> None:
        self.steps, self.orthogonal, self.locked = steps, orthogonal, locked
        self.alphas: list[float] = []
        self.betas: list[float] = []
        self.complete = False
        self.basis = (
            torch.empty(steps, len(start), device=start.device, dtype=start.dtype)
            if orthogonal
            else None
        )
        start = self._unlocked(start)
        self.previous, self.vector = None, start / _norm(start)

    @property
    def running(self) -> bool:
        return not self.complete and len(self.alphas) < self.steps

    def absorb(self, product: Tensor) -> None:
        """One step, given A times the current vector."""
        made = len(self.alphas)
        w = product if self.previous is None else product - self.betas[-1] * self.previous
        alpha = _dot(self.vector, w)
        w = self._unlocked(w - alpha * self.vector)
        if self.basis is not None:
            self.basis[made] = self.vector
            kept = self.basis[: made + 1]
            for _ in range(2):  # twice is enough (Giraud et al., 2005)
                w = w - kept.T @ (kept @ w)
        beta = _norm(w)
        self.alphas.append(alpha)
        self.betas.append(beta)
        scale = max(abs(each) for each in (*self.alphas, *self.betas))
        self.complete = beta <= _BREAKDOWN * torch.finfo(w.dtype).eps * scale
        if not self.complete:
            self.previous, self.vector = self.vector, w / beta

    def _unlocked(self, w: Tensor) -> Tensor:
        return w if self.locked is None else w - self.locked.T @ (self.locked @ w)

    def tridiagonal(self) -> Tridiagonal:
        made = len(self.alphas)
        diagonal, off = (
            torch.tensor(each, device="cpu", dtype=torch.float64)
            for each in (self.alphas, self.betas)
        )
        basis = None if self.basis is None else self.basis[:made]
        last = 0.0 if self.complete else self.betas[-1]
        precision = torch.finfo(self.vector.dtype).eps
        return Tridiagonal(
            diagonal, off[: made - 1], last, self.orthogonal, self.complete, precision, basis
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
    """Tridiagonal matrices from start rows (k, size), `together` at a time; a run whose Krylov space closes stops there.

    `locked` orthonormal rows (r, size) are projected out of every vector.

    >>> from penchant_numerics.operators import Dense
    >>> A = Dense(torch.diag(torch.tensor([1.0, 2.0, 2.0], device="cpu", dtype=torch.float64)))
    >>> T, = lanczos(A, torch.ones(1, 3, device="cpu", dtype=torch.float64), steps=3)
    >>> T.complete, [round(float(value), 6) for value in T.ritz()[0]]   # two distinct eigenvalues: two nodes
    (True, [1.0, 2.0])
    """
    found = []
    for part in starts.split(together or len(starts)):
        runs = [
            _Run(start, min(steps, A.size), orthogonal=orthogonal, locked=locked) for start in part
        ]
        while active := [run for run in runs if run.running]:
            for run, product in zip(active, A.rows(torch.stack([run.vector for run in active]))):
                run.absorb(product)
        found += [run.tridiagonal() for run in runs]
    return found


def _dot(a: Tensor, b: Tensor) -> float:
    return float((a * b).sum(dtype=accumulation_dtype(a.device)))


def _norm(a: Tensor) -> float:
    return float(torch.linalg.vector_norm(a, dtype=accumulation_dtype(a.device)))


def random_starts(count: int, like: Operator, *, generator: torch.Generator) -> Tensor:
    """Gaussian rows (count, size), drawn one after another on the CPU: more of them extend fewer."""
    rows = [
        torch.randn(like.size, generator=generator, device="cpu", dtype=like.dtype)
        for _ in range(count)
    ]
    return torch.stack(rows).to(like.device)
