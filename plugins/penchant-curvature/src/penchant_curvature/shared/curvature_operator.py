"""What every curvature of this plugin is: a symmetric operator that knows its inner products.

Frobenius distances follow from inner products, |A - B|^2 = <A, A> - 2 <A, B> + <B, B>, never from
matrices. In double precision a relative distance below about 1e-8 is rounding. All of it is what
`penchant_numerics.roles.LayerCurvature` asks for, so an operator of anybody's can be compared.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from penchant_numerics import Refusal
from penchant_numerics.linear_algebra import Eigenpairs, Operator, leading_pairs
from torch import Tensor

from penchant_curvature.shared.linear_layers import Layer

DENSE = 2048  # parameters up to which a matrix is formed: 32 megabytes
TOLERANCE = 1e-6  # residual of an eigenpair found by Lanczos, relative to the largest eigenvalue


class Curvature(Operator):
    """An operator on the parameters of `layers`, one after another, each as its flat rows."""

    by_class = False  # whether samples are grouped by their labels

    def __init__(
        self, layers: Sequence[Layer], *, device: torch.device, dtype: torch.dtype
    ) -> None:
        size = sum(layer.size for layer in layers)
        super().__init__(size, device=device, dtype=dtype)
        self.layers = tuple(layers)

    def matrices(self, rows: Tensor) -> list[Tensor]:
        """A matrix (k, out, width) a layer, of flat rows (k, size)."""
        sizes = [layer.size for layer in self.layers]
        blocks = rows.split(sizes, dim=1)
        matrices = []
        for layer, block in zip(self.layers, blocks):
            matrices.append(layer.matrices(block))
        return matrices

    def flat(self, matrices: Sequence[Tensor]) -> Tensor:
        """Flat rows (k, size) of a matrix (k, out, width) a layer."""
        rows = []
        for layer, matrix in zip(self.layers, matrices):
            rows.append(layer.rows(matrix))
        return torch.cat(rows, dim=1)

    def inner(self, other: Any) -> float:
        """<A, B> = Tr A B."""
        raise NotImplementedError

    def alignment(self, other: Any) -> float:
        """<A, B> / (|A| |B|): the distance without what a factor could mend; NaN where one is 0."""
        squares = self.squared_norm * squared_norm(other)
        lengths = math.sqrt(squares)
        if not lengths:
            return math.nan
        return self.inner(other) / lengths

    @functools.cached_property
    def squared_norm(self) -> float:
        """<A, A>."""
        return self.inner(self)

    def frobenius_distance(self, other: Any, *, relative: bool = False) -> float:
        """|A - B|, or over |A| with `relative`.

        Args:
            other: Any curvature of the same parameters, or any small operator on them.
            relative: Whether the distance is divided by |A|; NaN where that is 0.
        """
        if other.size != self.size:
            raise Refusal(
                f"expected an operator on {self.size} parameters, found one on {other.size}"
            )
        own = self.squared_norm
        shared = self.inner(other)
        square = own - 2 * shared + squared_norm(other)
        if not relative:
            return math.sqrt(max(square, 0.0))
        # nothing has no relative distance
        if not own:
            return math.nan
        return math.sqrt(max(square, 0.0) / own)

    def exact_spectrum(self) -> Tensor | None:
        """All eigenvalues that may differ from zero, descending; None where they are too many."""
        if self.size > DENSE:
            return None
        matrix = self.dense()
        ascending = torch.linalg.eigvalsh(matrix)
        descending: Tensor | None = ascending.flip(0)
        return descending

    def eigenpairs(self, count: int, *, generator: torch.Generator | None = None) -> Eigenpairs:
        """The `count` largest eigenvalues: exactly where that is affordable, else by Lanczos."""
        count = min(count, self.size)
        return leading_pairs(
            self,
            count,
            generator=generator,
            dense_up_to=DENSE,
            products=20 * count + 400,
            tolerance=TOLERANCE,
        )

    def eigenvalues(
        self, count: int | None = None, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """The `count` largest eigenvalues, descending; without a count, all that may not be 0."""
        # exact ones are cheaper than a search, where they are affordable
        spectrum = self.exact_spectrum()
        if spectrum is not None:
            return spectrum if count is None else _padded(spectrum, min(count, self.size))
        if count is None:
            raise Refusal(
                f"all eigenvalues of {self.size} parameters are too many: expected a count, "
                "found none"
            )
        return self.eigenpairs(count, generator=generator).values


def _padded(values: Tensor, count: int) -> Tensor:
    """The first `count` values; zeros where there are fewer, because the others are zero."""
    missing = max(0, count - len(values))
    zeros = values.new_zeros(missing)
    first = values[:count]
    return torch.cat([first, zeros])


def direct_pairs(values: Tensor, vectors: Tensor) -> Eigenpairs:
    """Pairs of a direct method, whose residuals are rounding."""
    # a direct method is exact to rounding of the largest
    rounding = 0.0
    if len(values):
        largest = float(values.abs().max())
        rounding = torch.finfo(values.dtype).eps * largest
    return Eigenpairs(
        values=values.cpu(),
        vectors=vectors,
        residuals=torch.full((len(values),), rounding, device="cpu", dtype=torch.float64),
        converged=torch.ones(len(values), device="cpu", dtype=torch.bool),
        products=0,
    )


def squared_norm(A: Any) -> float:
    """<A, A> of a curvature, or of a small operator that does not know it."""
    known: float | None = getattr(A, "squared_norm", None)
    return dense_inner(A, A) if known is None else known


def dense_inner(A: Any, B: Any) -> float:
    """<A, B> of small operators by their matrices."""
    if A.size > DENSE:
        raise Refusal(
            f"no inner product of {type(A).__name__} and {type(B).__name__} beyond {DENSE} "
            f"parameters, found {A.size}"
        )
    mine = A.dense().double()
    theirs = B.dense().double()
    products = mine * theirs
    return float(products.sum())
