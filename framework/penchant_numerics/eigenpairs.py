"""Leading eigenpairs of a symmetric operator: block subspace iteration, or Lanczos, each with residuals.

Values are Rayleigh quotients of the Rayleigh-Ritz procedure, so signs are kept (norms, as in the paper's algorithm 5, lose them).
A pair counts as converged when |A x - lambda x| is at most `tolerance` times the largest |lambda|.
Values, residuals and flags are on the CPU in double precision. Reference: Papyan, JMLR 2020, appendix C.8.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from penchant_numerics.lanczos import random_starts
from penchant_numerics.operators import Operator
from torch import Tensor

ORDERS = ("magnitude", "largest")


@dataclass(frozen=True)
class Eigenpairs:
    """Pairs in their order: descending, by absolute value or by value."""

    values: Tensor  # (count,), Rayleigh quotients
    vectors: Tensor  # (size, count), orthonormal columns
    residuals: Tensor  # (count,), |A x - lambda x|
    converged: Tensor  # (count,), bool
    products: int  # operator times vector


def subspace_iteration(
    A: Operator,
    count: int,
    *,
    generator: torch.Generator,
    iterations: int = 128,
    tolerance: float = 1e-4,
    extra: int = 2,
    start: Tensor | None = None,
) -> Eigenpairs:
    """The `count` pairs of largest absolute value, by repeated products with a block of count + `extra` vectors.

    Stops when all have converged. `start` columns (size, k) are taken as they are, to go on from earlier pairs.

    >>> from penchant_numerics.operators import Dense
    >>> A = Dense(torch.diag(torch.tensor([1.0, -5.0, 3.0], device="cpu")))
    >>> [round(float(value), 4) for value in subspace_iteration(A, 2, generator=torch.Generator("cpu")).values]
    [-5.0, 3.0]
    """
    width = min(A.size, count + extra)
    block = random_starts(width, A, generator=generator)  # (width, size), rows
    if start is not None:
        block = torch.cat([start.T.to(block), block])[:width]
    products = 0
    for _ in range(iterations):
        basis = _orthonormal(block)
        block = A.rows(basis)
        products += width
        pairs = _rayleigh_ritz(basis, block, count, tolerance, products, order="magnitude")
        if bool(pairs.converged.all()):
            break
    return pairs


def lanczos_eigenpairs(
    A: Operator,
    count: int,
    *,
    generator: torch.Generator,
    products: int = 1000,
    tolerance: float = 1e-4,
    order: str = "magnitude",
    width: int | None = None,
) -> Eigenpairs:
    """The `count` leading pairs by restarted Lanczos: far fewer products than subspace iteration, a basis of `width` vectors.

    Full bases are cut back to their leading Ritz vectors and the direction all their residuals share (Stewart, A Krylov-Schur
    algorithm for large eigenproblems, 2001). Ends when residual bounds say so, or after about so many `products`.
    """
    if order not in ORDERS or not 1 <= count <= A.size:
        raise ValueError(
            f"order must be one of {', '.join(ORDERS)} and count in 1..{A.size}, found {order!r} and {count}"
        )
    space = _KrylovSpace(A, min(A.size, width or max(3 * count, count + 20)), generator=generator)
    while True:
        while space.filled < space.width:
            space.grow()
        values, mix = torch.linalg.eigh(space.projected())
        first = _ordered(values, order)
        bounds = space.beyond * mix[-1, first[:count]].abs()
        done = bool((bounds <= tolerance / 2 * values.abs().max()).all())
        if done or space.width == A.size or space.products + space.width > products:
            rows = mix[:, first[:count]].T.to(A.device, A.dtype) @ space.basis[: space.filled]
            return _rayleigh_ritz(
                rows, A.rows(rows), count, tolerance, space.products + count, order=order
            )
        space.cut(values, mix, first[: (count + space.width) // 2])


class _KrylovSpace:
    """A Q^T = Q^T H + beyond * next e_last^T for rows Q: grown a vector at a time, cut back to Ritz vectors."""

    def __init__(self, A: Operator, width: int, *, generator: torch.Generator) -> None:
        self.A, self.width, self.generator = A, width, generator
        self.basis = torch.zeros(width, A.size, device=A.device, dtype=A.dtype)
        self.H = torch.zeros(width, width, device="cpu", dtype=torch.float64)
        self.next = self._fresh()
        self.filled, self.products, self.beyond = 0, 0, 0.0

    def _fresh(self) -> Tensor:
        """A random unit vector outside the space."""
        start = random_starts(1, self.A, generator=self.generator)[0]
        for _ in range(2):
            start = start - self.basis.T @ (self.basis @ start)
            start = start / torch.linalg.vector_norm(start)
        return start

    def grow(self) -> None:
        """Take the next vector in, and orthogonalise its product against all."""
        self.basis[self.filled] = self.next
        self.filled += 1
        kept = self.basis[: self.filled]
        w = self.A.rows(self.next[None])[0]
        scale = float(torch.linalg.vector_norm(w))
        for _ in range(2):
            coefficients = kept @ w
            w = w - kept.T @ coefficients
            self.H[: self.filled, self.filled - 1] += coefficients.to("cpu", torch.float64)
        self.products += 1
        self.beyond = float(torch.linalg.vector_norm(w))
        closed = (
            self.beyond <= 64 * torch.finfo(w.dtype).eps * scale
        )  # nothing new: go on somewhere else
        self.beyond = 0.0 if closed else self.beyond
        if self.filled < self.A.size:
            self.next = self._fresh() if closed else w / self.beyond

    def projected(self) -> Tensor:
        """H, symmetric: what orthogonalisation found above the diagonal holds below it too."""
        upper = self.H[: self.filled, : self.filled].triu()
        return upper + upper.triu(1).T

    def cut(self, values: Tensor, mix: Tensor, chosen: Tensor) -> None:
        """Keep some Ritz vectors."""
        self.basis[: len(chosen)] = mix[:, chosen].T.to(self.basis) @ self.basis[: self.filled]
        self.basis[len(chosen) :] = 0
        self.H.zero_()
        self.H[range(len(chosen)), range(len(chosen))] = values[chosen]
        self.filled = len(chosen)


def _ordered(values: Tensor, order: str) -> Tensor:
    return (values.abs() if order == "magnitude" else values).sort(descending=True).indices


def _orthonormal(rows: Tensor) -> Tensor:
    return torch.linalg.qr(rows.T).Q.T.contiguous()


def _rayleigh_ritz(
    basis: Tensor, images: Tensor, count: int, tolerance: float, products: int, *, order: str
) -> Eigenpairs:
    """The best pairs in the span of orthonormal rows, given the operator's products with them."""
    small = (basis @ images.T).to("cpu", torch.float64)
    values, mix = torch.linalg.eigh((small + small.T) / 2)
    chosen = _ordered(values, order)[:count]
    values, mix = values[chosen], mix[:, chosen].T.to(basis)  # (count, width)
    vectors = mix @ basis
    residuals = torch.linalg.vector_norm(
        mix @ images - values[:, None].to(basis) * vectors, dim=1
    ).to("cpu", torch.float64)
    converged = residuals <= tolerance * values.abs().max()
    return Eigenpairs(values, vectors.T, residuals, converged, products)
