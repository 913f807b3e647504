"""Symmetric matrix-free operators: sums, low rank, restriction, traces, and SciPy both ways.

An operator acts on R^size. `matvec` takes a vector (size,), `matmat` a block of columns (size, k),
as in A @ V. Inside, a block is held as rows (k, size), each contiguous, so that a block that is the
transpose of such rows is not copied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from penchant_numerics.device import accumulation_dtype
from penchant_numerics.refusal import Refusal
from torch import Tensor

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse.linalg import LinearOperator


class TraceEstimate(NamedTuple):
    """A trace and its standard error over `samples` random vectors; an exact one has neither.

    >>> Dense(torch.eye(3, device="cpu")).trace()
    TraceEstimate(value=3.0, stderr=0.0, samples=0)
    """

    value: float
    stderr: float
    samples: int


@dataclass(frozen=True)
class Factor:
    """V of an operator V V^T, matrix-free, on rows: from sample space R^samples to R^size, back.

    >>> V = torch.tensor([[1.0], [2.0]], device="cpu")
    >>> apply, adjoint = lambda u: u @ V.T, lambda v: v @ V
    >>> like = {"device": V.device, "dtype": V.dtype}
    >>> Factor(size=2, samples=1, apply=apply, adjoint=adjoint, **like).gram().dense().tolist()
    [[5.0]]
    """

    size: int
    samples: int
    apply: Callable[[Tensor], Tensor]  # (k, samples) -> (k, size), V u
    adjoint: Callable[[Tensor], Tensor]  # (k, size) -> (k, samples), V^T v
    device: torch.device
    dtype: torch.dtype

    def changed(self, change: Callable[[Tensor], Tensor]) -> Factor:
        """The factor of M V V^T M for a symmetric `change` M of rows (k, size)."""
        apply = self.apply
        adjoint = self.adjoint
        return Factor(
            size=self.size,
            samples=self.samples,
            apply=lambda u: change(apply(u)),
            adjoint=lambda v: adjoint(change(v)),
            device=self.device,
            dtype=self.dtype,
        )

    def gram(self) -> Operator:
        """V^T V on sample space: the same non-zero eigenvalues as V V^T."""

        def product(u: Tensor) -> Tensor:
            return self.adjoint(self.apply(u))

        return Applied(self.samples, product, device=self.device, dtype=self.dtype)


class Operator:
    """A symmetric linear map on R^size.

    Subclasses give `_rows`, its product with rows (k, size), and where they can `factor` and
    `exact_trace`.

    >>> A = Dense(torch.diag(torch.tensor([3.0, 1.0], device="cpu")))
    >>> (2 * A + A).matvec(torch.ones(2, device="cpu")).tolist()
    [9.0, 3.0]
    """

    conventions: Mapping[str, str] = {}

    def __init__(self, size: int, *, device: torch.device | str, dtype: torch.dtype) -> None:
        self.size = size
        self.device = torch.device(device)
        self.dtype = dtype

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return (self.size, self.size)

    # ---- products

    def matvec(self, v: Tensor) -> Tensor:
        """A v for a vector v (size,)."""
        self._check(v, (self.size,))
        return self.multiply_rows(v[None])[0]

    def matmat(self, V: Tensor) -> Tensor:
        """A V for columns V (size, k)."""
        columns = V.shape[-1]
        self._check(V, (self.size, columns))
        products = self.multiply_rows(V.T)
        return products.T

    def multiply_rows(self, rows: Tensor) -> Tensor:
        """(A V)^T for V^T = rows (k, size)."""
        count = len(rows)
        self._check(rows, (count, self.size))
        given = rows.to(self.dtype).detach()
        return self._rows(given.contiguous())

    rows = multiply_rows  # as the role `curvature` calls it (`roles.LayerCurvature`)

    def _rows(self, rows: Tensor) -> Tensor:
        """The product with rows (k, size) that are contiguous and have no graph."""
        raise NotImplementedError

    def _check(self, given: Tensor, shape: tuple[int, ...]) -> None:
        """Refuse what has another shape, or is elsewhere."""
        actual = tuple(given.shape)
        here = _same_device(given.device, self.device)
        if actual != shape or not here:
            raise Refusal(
                f"expected a tensor {shape} on {self.device}, found {actual} on {given.device}"
            )

    def __matmul__(self, other: Tensor) -> Tensor:
        # a vector, or columns
        if other.dim() == 1:
            return self.matvec(other)
        return self.matmat(other)

    # ---- algebra

    def __add__(self, other: Operator) -> Operator:
        return Sum([self, other])

    def __sub__(self, other: Operator) -> Operator:
        negative = Scaled(other, -1.0)
        return Sum([self, negative])

    def __mul__(self, factor: float) -> Operator:
        return Scaled(self, factor)

    __rmul__ = __mul__

    def __neg__(self) -> Operator:
        return Scaled(self, -1.0)

    def factor(self) -> Factor | None:
        """V if this operator is V V^T with a V that can be applied, else None."""
        return None

    # ---- numbers

    def quadratic(self, rows: Tensor) -> Tensor:
        """v^T A v (k,) in double precision for rows v (k, size).

        With a factor it is |V^T v|^2, which is half the work.
        """
        wide = accumulation_dtype(self.device)
        factor = self.factor()
        if factor is not None:
            inside = factor.adjoint(rows).to(wide)
            return inside.square().sum(1)

        # row by row: a block in double precision may be large
        values = []
        for v, Av in zip(rows, self.multiply_rows(rows)):
            products = v.to(wide) * Av.to(wide)
            values.append(products.sum())
        return torch.stack(values)

    def exact_trace(self) -> float | None:
        """The trace if it is nearly free, else None."""
        return None

    def trace(
        self, *, generator: torch.Generator | None = None, samples: int = 32, block: int = 8
    ) -> TraceEstimate:
        """The trace: exact where that is cheap, else Hutchinson's mean of v^T A v.

        Reference: Hutchinson, A stochastic estimator of the trace of the influence matrix, 1989.

        Args:
            generator: For random signs v; an exact trace needs none.
            samples: How many vectors, at least 2.
            block: How many at a time.

        Returns:
            The trace with its standard error over vectors.
        """
        exact = self.exact_trace()
        if exact is not None:
            return TraceEstimate(exact, 0.0, 0)
        if generator is None or samples < 2:
            raise Refusal(
                "this trace is estimated: expected a generator and at least 2 samples, "
                f"found {generator} and {samples}"
            )

        # v^T A v of all vectors, some at a time
        values = []
        for start in range(0, samples, block):
            count = min(block, samples - start)
            signs = random_signs(count, self, generator=generator)
            values.append(self.quadratic(signs))
        estimates = torch.cat(values)
        mean = float(estimates.mean())
        stderr = float(estimates.std()) / math.sqrt(samples)
        return TraceEstimate(mean, stderr, samples)

    def dense(self, *, block: int = 64) -> Tensor:
        """The matrix (size, size), by products with unit vectors; for small operators and tests."""
        units = torch.eye(self.size, device=self.device, dtype=self.dtype)
        products = []
        for rows in units.split(block):
            products.append(self.multiply_rows(rows))
        return torch.cat(products).T

    def to_scipy(self) -> LinearOperator:
        """This operator as a `scipy.sparse.linalg.LinearOperator` on float64 or float32 arrays."""
        from scipy.sparse.linalg import LinearOperator

        def product(given: np.ndarray) -> np.ndarray:
            # SciPy gives vectors (size,), (size, 1) or (size, k)
            columns = torch.as_tensor(given, device=self.device, dtype=self.dtype)
            made = self.matmat(columns.reshape(self.size, -1))
            shaped = made.reshape(given.shape)
            return shaped.cpu().numpy()

        return LinearOperator(
            self.shape,
            matvec=product,
            rmatvec=product,
            matmat=product,
            rmatmat=product,
            dtype=str(self.dtype).removeprefix("torch."),
        )


def _same_device(first: torch.device, second: torch.device) -> bool:
    """Whether two devices are one; a device without a number is any of its type."""
    if first.type != second.type:
        return False
    numbers = (first.index, second.index)
    if None in numbers:
        return True
    return first.index == second.index


def random_signs(count: int, like: Operator, *, generator: torch.Generator) -> Tensor:
    """Rows of independent random signs, sampled on the CPU: the same for every device.

    Args:
        count: How many rows.
        like: The operator they are for.
        generator: What they are sampled from.

    Returns:
        Rows (count, size) of -1 and 1.
    """
    # whole numbers: the same for every precision
    bits = torch.randint(
        0, 2, (count, like.size), generator=generator, device="cpu", dtype=torch.int8
    )
    return bits.to(like.device, like.dtype).mul_(2).sub_(1)


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
    """A symmetric matrix as an operator.

    >>> A = Dense(torch.tensor([[2.0, 1.0], [1.0, 2.0]], device="cpu"))
    >>> A @ torch.tensor([1.0, 0.0], device="cpu"), A.trace().value
    (tensor([2., 1.]), 4.0)
    """

    def __init__(self, matrix: Tensor) -> None:
        super().__init__(len(matrix), device=matrix.device, dtype=matrix.dtype)
        self.matrix = matrix

    def _rows(self, rows: Tensor) -> Tensor:
        return rows @ self.matrix

    def exact_trace(self) -> float:
        """The sum of the diagonal."""
        wide = accumulation_dtype(self.device)
        diagonal = self.matrix.diagonal().to(wide)
        return float(diagonal.sum())


class Scaled(Operator):
    """A number times an operator."""

    def __init__(self, inner: Operator, number: float) -> None:
        super().__init__(inner.size, device=inner.device, dtype=inner.dtype)
        self.inner = inner
        self.number = float(number)
        self.conventions = inner.conventions

    def _rows(self, rows: Tensor) -> Tensor:
        images = self.inner.multiply_rows(rows)
        return images * self.number

    def factor(self) -> Factor | None:
        """The root of the number times the inner factor, where there is a root."""
        inner = self.inner.factor()
        # a negative number has no real root
        if inner is None or self.number < 0:
            return None
        root = math.sqrt(self.number)
        return inner.changed(lambda rows: rows * root)

    def exact_trace(self) -> float | None:
        """The number times the inner trace."""
        inner = self.inner.exact_trace()
        if inner is None:
            return None
        return self.number * inner


class Sum(Operator):
    """A sum of operators of one size."""

    def __init__(self, terms: Sequence[Operator]) -> None:
        first = terms[0]
        super().__init__(first.size, device=first.device, dtype=first.dtype)
        sizes = [term.size for term in terms]
        if len(set(sizes)) > 1:
            raise Refusal(f"terms of a sum must have one size, found {sizes}")
        self.terms = list(terms)

        # where terms have different conventions, the first one counts
        self.conventions = {}
        for term in reversed(terms):
            self.conventions.update(term.conventions)

    def _rows(self, rows: Tensor) -> Tensor:
        first, *others = self.terms
        total = first.multiply_rows(rows)
        for term in others:
            total = total + term.multiply_rows(rows)
        return total

    def factor(self) -> Factor | None:
        """The factors side by side: sample space is the sum of theirs."""
        # one term without a factor leaves the sum without
        factors = []
        for term in self.terms:
            factor = term.factor()
            if factor is None:
                return None
            factors.append(factor)
        sizes = [each.samples for each in factors]

        def apply(u: Tensor) -> Tensor:
            """Each factor is applied to its samples."""
            pairs = zip(factors, u.split(sizes, dim=1))
            first, *others = [each.apply(own) for each, own in pairs]
            return sum(others, start=first)

        def adjoint(v: Tensor) -> Tensor:
            """The adjoints of all factors, side by side."""
            products = [each.adjoint(v) for each in factors]
            return torch.cat(products, dim=1)

        return Factor(
            size=self.size,
            samples=sum(sizes),
            apply=apply,
            adjoint=adjoint,
            device=self.device,
            dtype=self.dtype,
        )

    def exact_trace(self) -> float | None:
        """The sum of traces, where all are known."""
        total = 0.0
        for term in self.terms:
            trace = term.exact_trace()
            if trace is None:
                return None
            total += trace
        return total


class Restricted(Operator):
    """The principal block S A S^T of the coordinates S: `indices` are a slice, or numbers (m,).

    For a layer of a curvature operator, restrict its parameters instead: that is cheaper, this
    takes whole products.

    >>> A = Dense(torch.arange(9.0, device="cpu").reshape(3, 3))
    >>> Restricted(A, slice(1, 3)).dense().T.tolist()
    [[4.0, 5.0], [7.0, 8.0]]
    """

    def __init__(self, inner: Operator, indices: slice | Tensor) -> None:
        self.inner = inner
        self.indices = indices
        # how many coordinates these are
        if isinstance(indices, slice):
            size = len(range(*indices.indices(inner.size)))
        else:
            size = len(indices)
        super().__init__(size, device=inner.device, dtype=inner.dtype)
        self.conventions = inner.conventions

    def _padded(self, rows: Tensor) -> Tensor:
        """Rows of the whole space, zero outside the block."""
        count = len(rows)
        whole = rows.new_zeros(count, self.inner.size)
        whole[:, self.indices] = rows
        return whole

    def _rows(self, rows: Tensor) -> Tensor:
        padded = self._padded(rows)
        images = self.inner.multiply_rows(padded)
        return images[:, self.indices]

    def factor(self) -> Factor | None:
        """Some rows of the inner factor."""
        inner = self.inner.factor()
        if inner is None:
            return None
        apply = inner.apply
        adjoint = inner.adjoint
        return Factor(
            size=self.size,
            samples=inner.samples,
            apply=lambda u: apply(u)[:, self.indices],
            adjoint=lambda v: adjoint(self._padded(v)),
            device=self.device,
            dtype=self.dtype,
        )
