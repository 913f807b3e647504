"""What every curvature of this plugin is: a symmetric operator on the parameters of some layers that knows its inner products.

Frobenius distances follow from inner products, |A - B|^2 = <A, A> - 2 <A, B> + <B, B>, never from matrices. In double precision a relative
distance below about 1e-8 is rounding.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
from penchant_numerics.eigenpairs import Eigenpairs, lanczos_eigenpairs
from penchant_numerics.operators import Operator
from torch import Tensor

from penchant_curvature._layers import Layer

DENSE = 2048  # parameters up to which a matrix is formed: 32 megabytes
TOLERANCE = 1e-6  # residual of an eigenpair found by Lanczos, relative to the largest eigenvalue


class Curvature(Operator):
    """An operator on the parameters of `layers`, one after another, each in the order of its flat rows."""

    by_class = False  # whether samples are grouped by their labels

    def __init__(
        self, layers: Sequence[Layer], *, device: torch.device, dtype: torch.dtype
    ) -> None:
        super().__init__(sum(layer.size for layer in layers), device=device, dtype=dtype)
        self.layers = tuple(layers)

    def matrices(self, rows: Tensor) -> list[Tensor]:
        """A matrix (k, out, width) a layer, of flat rows (k, size)."""
        parts = rows.split([layer.size for layer in self.layers], dim=1)
        return [layer.matrices(part) for layer, part in zip(self.layers, parts)]

    def flat(self, matrices: Sequence[Tensor]) -> Tensor:
        """Flat rows (k, size) of a matrix (k, out, width) a layer."""
        return torch.cat(
            [layer.rows(matrix) for layer, matrix in zip(self.layers, matrices)], dim=1
        )

    def inner(self, other: Operator) -> float:
        """<A, B> = Tr A B."""
        raise NotImplementedError

    def alignment(self, other: Operator) -> float:
        """<A, B> / (|A| |B|): the distance without what a factor could mend."""
        return self.inner(other) / math.sqrt(self.squared_norm * _squared_norm(other))

    @functools.cached_property
    def squared_norm(self) -> float:
        """<A, A>."""
        return self.inner(self)

    def frobenius_norm(self) -> float:
        """|A|."""
        return math.sqrt(self.squared_norm)

    def frobenius_distance(self, other: Operator, *, relative: bool = False) -> float:
        """|A - B|, or over |A| with `relative`; `other` is a curvature of the same layers, or any small operator."""
        if other.size != self.size:
            raise ValueError(
                f"expected an operator on {self.size} parameters, found one on {other.size}"
            )
        square = self.squared_norm - 2 * self.inner(other) + _squared_norm(other)
        if relative and not self.squared_norm:
            return math.nan
        return math.sqrt(max(square, 0.0) / (self.squared_norm if relative else 1.0))

    def exact_spectrum(self) -> Tensor | None:
        """All eigenvalues that may differ from zero, descending, where that is affordable, else nothing."""
        return torch.linalg.eigvalsh(self.dense()).flip(0) if self.size <= DENSE else None

    def eigenpairs(self, count: int, *, generator: torch.Generator | None = None) -> Eigenpairs:
        """The `count` largest eigenvalues with their vectors, exactly where that is affordable, else by Lanczos."""
        count = min(count, self.size)
        if self.size <= DENSE:
            values, vectors = torch.linalg.eigh(self.dense())
            return exact_pairs(values.flip(0)[:count], vectors.flip(1)[:, :count])
        if generator is None:
            raise ValueError(
                f"eigenvalues of {self.size} parameters are found by Lanczos: expected a generator, found none"
            )
        return lanczos_eigenpairs(
            self,
            count,
            generator=generator,
            products=20 * count + 400,
            tolerance=TOLERANCE,
            order="largest",
        )

    def eigenvalues(
        self, count: int | None = None, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """The `count` largest eigenvalues, descending; without a count, all that may differ from zero."""
        found = self.exact_spectrum()
        if found is not None:
            return found if count is None else _padded(found, min(count, self.size))
        if count is None:
            raise ValueError(
                f"all eigenvalues of {self.size} parameters are too many: expected a count, found none"
            )
        return self.eigenpairs(count, generator=generator).values


def _padded(values: Tensor, count: int) -> Tensor:
    """The first `count` values; zeros where there are fewer, because the others are zero."""
    return torch.cat([values[:count], values.new_zeros(max(0, count - len(values)))])


def exact_pairs(values: Tensor, vectors: Tensor) -> Eigenpairs:
    """Pairs of a direct method, whose residuals are rounding."""
    rounding = torch.finfo(values.dtype).eps * float(values.abs().max()) if len(values) else 0.0
    residuals = torch.full((len(values),), rounding, device="cpu", dtype=torch.float64)
    return Eigenpairs(
        values.cpu(), vectors, residuals, torch.ones(len(values), device="cpu", dtype=torch.bool), 0
    )


def _squared_norm(A: Operator) -> float:
    return A.squared_norm if isinstance(A, Curvature) else dense_inner(A, A)


def dense_inner(A: Operator, B: Operator) -> float:
    """<A, B> of small operators by their matrices."""
    if A.size > DENSE:
        raise ValueError(
            f"no inner product of {type(A).__name__} and {type(B).__name__} beyond {DENSE} parameters, found {A.size}"
        )
    return float((A.dense().double() * B.dense().double()).sum())
