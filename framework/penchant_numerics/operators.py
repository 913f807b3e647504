"""Symmetric matrix-free operators: a small interface, sums, low rank, restriction, traces, and SciPy both ways.

An operator acts on R^size. `matvec` takes a vector (size,), `matmat` a block of columns (size, k), as in A @ V; inside, a block
is held as rows (k, size), each contiguous, so a block that is the transpose of such rows is not copied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from penchant_numerics.moments import accumulation_dtype
from torch import Tensor

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator


class Estimate(NamedTuple):
    """A number and its standard error over `samples` random vectors; exact ones have neither."""

    value: float
    stderr: float
    samples: int


@dataclass(frozen=True)
class Factor:
    """V of an operator V V^T, matrix-free: from sample space R^samples to R^size and back, on rows."""

    size: int
    samples: int
    apply: Callable[[Tensor], Tensor]  # (k, samples) -> (k, size), V u
    adjoint: Callable[[Tensor], Tensor]  # (k, size) -> (k, samples), V^T v
    device: torch.device
    dtype: torch.dtype

    def changed(self, change: Callable[[Tensor], Tensor]) -> Factor:
        """The factor of M V V^T M for a symmetric `change` M of rows (k, size)."""
        return Factor(
            self.size,
            self.samples,
            lambda u: change(self.apply(u)),
            lambda v: self.adjoint(change(v)),
            self.device,
            self.dtype,
        )

    def gram(self) -> Operator:
        """V^T V on sample space: the same non-zero eigenvalues as V V^T."""
        return Applied(
            self.samples,
            lambda u: self.adjoint(self.apply(u)),
            device=self.device,
            dtype=self.dtype,
        )


class Operator:
    """A symmetric linear map on R^size. Subclasses give `_rows`: its product with rows (k, size).

    >>> A = Dense(torch.diag(torch.tensor([3.0, 1.0], device="cpu")))
    >>> (2 * A + A).matvec(torch.ones(2, device="cpu")).tolist()
    [9.0, 3.0]
    """

    conventions: Mapping[str, str] = {}

    def __init__(self, size: int, *, device: torch.device | str, dtype: torch.dtype) -> None:
        self.size, self.device, self.dtype = size, torch.device(device), dtype

    @property
    def shape(self) -> tuple[int, int]:
        return (self.size, self.size)

    def matvec(self, v: Tensor) -> Tensor:
        """A v for a vector v (size,)."""
        return self.rows(self._checked(v, (self.size,))[None])[0]

    def matmat(self, V: Tensor) -> Tensor:
        """A V for columns V (size, k)."""
        return self.rows(self._checked(V, (self.size, V.shape[-1])).T).T

    def rows(self, rows: Tensor) -> Tensor:
        """(A V)^T for V^T = rows (k, size)."""
        return self._rows(self._checked(rows, (len(rows), self.size)).detach().contiguous())

    def _rows(self, rows: Tensor) -> Tensor:
        raise NotImplementedError

    def _checked(self, given: Tensor, shape: tuple[int, ...]) -> Tensor:
        if tuple(given.shape) != shape or given.device != self.device:
            raise ValueError(
                f"expected a tensor {shape} on {self.device}, found {tuple(given.shape)} on {given.device}"
            )
        return given.to(self.dtype)

    def __matmul__(self, other: Tensor) -> Tensor:
        return self.matvec(other) if other.dim() == 1 else self.matmat(other)

    def __add__(self, other: Operator) -> Operator:
        return Sum([self, other])

    def __sub__(self, other: Operator) -> Operator:
        return Sum([self, Scaled(other, -1.0)])

    def __mul__(self, factor: float) -> Operator:
        return Scaled(self, factor)

    __rmul__ = __mul__

    def __neg__(self) -> Operator:
        return Scaled(self, -1.0)

    def factor(self) -> Factor | None:
        """V where this operator is V V^T with a V that can be applied, else nothing."""
        return None

    def quadratic(self, rows: Tensor) -> Tensor:
        """v^T A v (k,) in double precision for rows v (k, size); with a factor |V^T v|^2, which is half the work."""
        factor = self.factor()
        wide = accumulation_dtype(self.device)
        if factor is not None:
            return factor.adjoint(rows).to(wide).square().sum(1)
        return torch.stack(
            [(v.to(wide) * Av.to(wide)).sum() for v, Av in zip(rows, self.rows(rows))]
        )

    def exact_trace(self) -> float | None:
        """The trace where it costs next to nothing, else nothing."""
        return None

    def trace(
        self, *, generator: torch.Generator | None = None, samples: int = 32, block: int = 8
    ) -> Estimate:
        """The trace: exact where that is cheap, else Hutchinson's mean of v^T A v over random signs v, `block` at a time.

        Reference: Hutchinson, A stochastic estimator of the trace of the influence matrix, 1989.
        """
        exact = self.exact_trace()
        if exact is not None:
            return Estimate(exact, 0.0, 0)
        if generator is None or samples < 2:
            raise ValueError(
                f"this trace is estimated: expected a generator and at least 2 samples, found {generator} and {samples}"
            )
        counts = [min(block, samples - start) for start in range(0, samples, block)]
        values = torch.cat(
            [self.quadratic(random_signs(count, self, generator=generator)) for count in counts]
        )
        return Estimate(float(values.mean()), float(values.std()) / math.sqrt(samples), samples)

    def dense(self, *, block: int = 64) -> Tensor:
        """The matrix (size, size), by products with unit vectors; for small operators and tests."""
        eye = torch.eye(self.size, device=self.device, dtype=self.dtype)
        return torch.cat([self.rows(rows) for rows in eye.split(block)]).T

    def to_scipy(self) -> LinearOperator:
        """This operator as a `scipy.sparse.linalg.LinearOperator` on float64 or float32 arrays."""
        from scipy.sparse.linalg import LinearOperator

        def product(given):  # type: ignore[no-untyped-def]
            columns = torch.as_tensor(given, device=self.device, dtype=self.dtype).reshape(
                self.size, -1
            )
            return self.matmat(columns).reshape(given.shape).cpu().numpy()

        name = str(self.dtype).removeprefix("torch.")
        return LinearOperator(
            self.shape, matvec=product, rmatvec=product, matmat=product, rmatmat=product, dtype=name
        )


def from_scipy(
    operator: LinearOperator, *, device: torch.device | str, dtype: torch.dtype
) -> Operator:
    """A symmetric SciPy operator as one of these; its products are computed on the host."""

    def product(rows: Tensor) -> Tensor:
        return torch.as_tensor(
            operator.matmat(rows.cpu().numpy().T).T.copy(), device=rows.device, dtype=rows.dtype
        )

    if operator.shape[0] != operator.shape[1]:
        raise ValueError(f"expected a square operator, found {operator.shape}")
    return Applied(operator.shape[0], product, device=device, dtype=dtype)


def random_signs(count: int, like: Operator, *, generator: torch.Generator) -> Tensor:
    """Rows (count, size) of independent random signs, drawn on the CPU: the same for every device."""
    signs = torch.randint(
        0, 2, (count, like.size), generator=generator, device="cpu", dtype=torch.int8
    )
    return signs.to(like.device, like.dtype).mul_(2).sub_(1)


class Applied(Operator):
    """An operator given by its product with rows (k, size).

    >>> double = Applied(2, lambda rows: 2 * rows, device="cpu", dtype=torch.float32)
    >>> double.matvec(torch.ones(2, device="cpu")).tolist()
    [2.0, 2.0]
    """

    def __init__(
        self,
        size: int,
        product: Callable[[Tensor], Tensor],
        *,
        device: torch.device | str,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(size, device=device, dtype=dtype)
        self._product = product

    def _rows(self, rows: Tensor) -> Tensor:
        return self._product(rows)


class Dense(Operator):
    """A symmetric matrix as an operator."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__(len(matrix), device=matrix.device, dtype=matrix.dtype)
        self.matrix = matrix

    def _rows(self, rows: Tensor) -> Tensor:
        return rows @ self.matrix

    def exact_trace(self) -> float:
        return float(self.matrix.diagonal().to(accumulation_dtype(self.device)).sum())


class LowRank(Operator):
    """V diag(weights) V^T for columns V (size, r); without weights V V^T.

    >>> V = torch.tensor([[1.0], [2.0]], device="cpu")
    >>> LowRank(V).dense().tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """

    def __init__(self, V: Tensor, weights: Tensor | None = None) -> None:
        super().__init__(len(V), device=V.device, dtype=V.dtype)
        self.V, self.weights = V, weights

    def _rows(self, rows: Tensor) -> Tensor:
        inner = rows @ self.V  # (k, r)
        return (inner if self.weights is None else inner * self.weights) @ self.V.T

    def factor(self) -> Factor | None:
        if self.weights is not None:
            return None
        return Factor(
            self.size,
            self.V.shape[1],
            lambda u: u @ self.V.T,
            lambda v: v @ self.V,
            self.device,
            self.dtype,
        )

    def exact_trace(self) -> float:
        squares = self.V.to(accumulation_dtype(self.device)).square().sum(0)
        return float((squares if self.weights is None else squares * self.weights).sum())


class Scaled(Operator):
    """A number times an operator."""

    def __init__(self, inner: Operator, number: float) -> None:
        super().__init__(inner.size, device=inner.device, dtype=inner.dtype)
        self.inner, self.number, self.conventions = inner, float(number), inner.conventions

    def _rows(self, rows: Tensor) -> Tensor:
        return self.inner.rows(rows) * self.number

    def factor(self) -> Factor | None:
        inner = self.inner.factor()
        return (
            None
            if inner is None or self.number < 0
            else inner.changed(lambda rows: rows * math.sqrt(self.number))
        )

    def exact_trace(self) -> float | None:
        inner = self.inner.exact_trace()
        return None if inner is None else self.number * inner


class Sum(Operator):
    """A sum of operators of one size."""

    def __init__(self, terms: Sequence[Operator]) -> None:
        first = terms[0]
        super().__init__(first.size, device=first.device, dtype=first.dtype)
        if any(term.size != self.size for term in terms):
            raise ValueError(
                f"terms of a sum must have one size, found {[term.size for term in terms]}"
            )
        self.terms = list(terms)
        self.conventions = {
            name: text for term in reversed(terms) for name, text in term.conventions.items()
        }

    def _rows(self, rows: Tensor) -> Tensor:
        total = self.terms[0].rows(rows)
        for term in self.terms[1:]:
            total = total + term.rows(rows)
        return total

    def factor(self) -> Factor | None:
        factors = [term.factor() for term in self.terms]
        if any(each is None for each in factors):
            return None
        sizes = [each.samples for each in factors]

        def apply(u: Tensor) -> Tensor:
            return sum(each.apply(part) for each, part in zip(factors, u.split(sizes, dim=1)))

        def adjoint(v: Tensor) -> Tensor:
            return torch.cat([each.adjoint(v) for each in factors], dim=1)

        return Factor(self.size, sum(sizes), apply, adjoint, self.device, self.dtype)

    def exact_trace(self) -> float | None:
        traces = [term.exact_trace() for term in self.terms]
        return None if any(trace is None for trace in traces) else sum(traces)


class Restricted(Operator):
    """The principal block S A S^T of the coordinates S: `indices` are a slice, or numbers (m,).

    For a layer of a curvature operator, restrict its parameters instead: that is cheaper, this takes whole products.

    >>> A = Dense(torch.arange(9.0, device="cpu").reshape(3, 3))
    >>> Restricted(A, slice(1, 3)).dense().T.tolist()
    [[4.0, 5.0], [7.0, 8.0]]
    """

    def __init__(self, inner: Operator, indices: slice | Tensor) -> None:
        self.inner, self.indices = inner, indices
        size = (
            len(range(*indices.indices(inner.size))) if isinstance(indices, slice) else len(indices)
        )
        super().__init__(size, device=inner.device, dtype=inner.dtype)
        self.conventions = inner.conventions

    def _padded(self, rows: Tensor) -> Tensor:
        whole = torch.zeros(len(rows), self.inner.size, device=rows.device, dtype=rows.dtype)
        whole[:, self.indices] = rows
        return whole

    def _rows(self, rows: Tensor) -> Tensor:
        return self.inner.rows(self._padded(rows))[:, self.indices]

    def factor(self) -> Factor | None:
        inner = self.inner.factor()
        if inner is None:
            return None
        apply, adjoint = inner.apply, inner.adjoint
        return Factor(
            self.size,
            inner.samples,
            lambda u: apply(u)[:, self.indices],
            lambda v: adjoint(self._padded(v)),
            self.device,
            self.dtype,
        )
