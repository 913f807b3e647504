"""Curvature as a sum of gradients' outer products, V V^T.

V has a column for every sample and class (Gauss-Newton) or every sample (empirical Fisher), and is
never formed where its columns are outer products themselves. Its Gram matrix V^T V, of as many
rows, has all eigenvalues that differ from zero. <V V^T, W W^T> = |V^T W|^2, and with any other
operator <V V^T, B> = sum_j v_j^T B v_j, which asks for products only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from penchant_numerics.device import memory
from penchant_numerics.layers import Factored
from penchant_numerics.linear_algebra import Eigenpairs, Factor
from torch import Tensor

from penchant_curvature.shared.column_bytes import ColumnShape
from penchant_curvature.shared.curvature_operator import DENSE, Curvature, direct_pairs
from penchant_curvature.shared.layer_samples import LayerSamples
from penchant_curvature.shared.linear_layers import Layer

LARGEST = 8192  # columns up to which a Gram matrix is formed: half a gigabyte
_CHUNK_BYTES = 2**27  # gradients that exist at once, or what a share of the budget allows
_CHUNK_SHARE = 8  # an eighth
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Positions:
    """Columns sum_t errors x inputs of one layer, as inputs (n, t, d) and errors (n, k, t, o)."""

    inputs: Tensor
    errors: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Samples, and columns per sample."""
        samples, columns, _, _ = self.errors.shape
        return samples, columns

    def squared_norm(self) -> Tensor:
        """sum_ik |v_ik|^2."""
        return between_positions(self, self).sum()

    def matrices(self, some: slice) -> Tensor:
        """Columns of some samples as matrices (m, k, o, d)."""
        errors = self.errors[some]
        inputs = self.inputs[some]
        return torch.einsum("nkto,ntd->nkod", errors, inputs)

    def combined(self, weights: Tensor) -> Tensor:
        """sum_ik weights_rik v_ik (r, o, d)."""
        errors = torch.einsum("rnk,nkto->rnto", weights, self.errors)
        return torch.einsum("rnto,ntd->rod", errors, self.inputs)

    def products(self, matrices: Tensor) -> Tensor:
        """<v_ik, X_r> (r, n, k) for matrices X (r, o, d)."""
        seen = torch.einsum("rod,ntd->rnto", matrices, self.inputs)
        return torch.einsum("rnto,nkto->rnk", seen, self.errors)


@dataclass(frozen=True)
class Gradients:
    """The same as matrices: smaller where a convolution has more positions than weights."""

    columns: Tensor  # (n, k, o, d)

    @property
    def shape(self) -> tuple[int, int]:
        """Samples, and columns per sample."""
        samples, columns, _, _ = self.columns.shape
        return samples, columns

    def squared_norm(self) -> Tensor:
        """sum_ik |v_ik|^2."""
        return self.columns.square().sum()

    def matrices(self, some: slice) -> Tensor:
        """Columns of some samples as matrices (m, k, o, d)."""
        return self.columns[some]

    def combined(self, weights: Tensor) -> Tensor:
        """sum_ik weights_rik v_ik (r, o, d)."""
        return torch.einsum("rnk,nkod->rod", weights, self.columns)

    def products(self, matrices: Tensor) -> Tensor:
        """<v_ik, X_r> (r, n, k) for matrices X (r, o, d)."""
        return torch.einsum("nkod,rod->rnk", self.columns, matrices)


Stored = Positions | Gradients


def between_positions(
    left: Positions, right: Positions, H: Tensor | None = None, Delta: Tensor | None = None
) -> Tensor:
    """(h_t^T H h'_t') sum_k (s_kt^T Delta s'_kt') for pairs of positions of a sample (n, t, t')."""
    inputs = left.inputs if H is None else left.inputs @ H
    errors = left.errors if Delta is None else left.errors @ Delta
    mine = errors.transpose(1, 2).flatten(2)  # (n, t, k o)
    theirs = right.errors.transpose(1, 2).flatten(2)

    # an outer product of sums is a product of inner products
    of_inputs = inputs @ right.inputs.mT
    of_errors = mine @ theirs.mT
    return of_inputs * of_errors


def store(samples: LayerSamples) -> tuple[Layer, Stored]:
    """All columns of a layer in the smaller of the two forms."""

    def work(batch: int) -> tuple[Layer, Stored]:
        samples.batch = batch
        return _stored(samples)

    return memory.halving(work, samples.batch, what="samples per pass of a layer's gradients")


def _stored(samples: LayerSamples) -> tuple[Layer, Stored]:
    """The columns, pass by pass."""
    inputs, errors, columns = [], [], []
    for batch in samples:
        _, t, d = batch.inputs.shape
        _, k, _, o = batch.errors.shape
        if ColumnShape(t, k, o, d).by_positions:
            inputs.append(batch.inputs)
            errors.append(batch.errors)
        else:
            positions = Positions(batch.inputs, batch.errors)
            columns.append(positions.matrices(slice(None)))
    layer = Layer(samples.name, o, d, bias=samples.has_bias, transposed=samples.transposed)
    if columns:
        return layer, Gradients(torch.cat(columns))
    return layer, Positions(torch.cat(inputs), torch.cat(errors))


class Columns(Curvature):
    """V V^T over some layers, one `stored` a layer, all with the same samples and columns."""

    def __init__(self, layers: Sequence[Layer], stored: Sequence[Stored]) -> None:
        norm = stored[0].squared_norm()
        super().__init__(layers, device=norm.device, dtype=norm.dtype)
        self.stored = tuple(stored)
        self.samples, self.each = stored[0].shape  # columns per sample

    @property
    def count(self) -> int:
        """Columns of V."""
        return self.samples * self.each

    @property
    def _is_small(self) -> bool:
        """Whether the matrix itself can be formed, and is no larger than its Gram matrix."""
        most = min(self.count, DENSE)
        return self.size <= most

    def _apply(self, u: Tensor) -> Tensor:
        """V u of rows u (k, columns)."""
        # each layer has its block of the same combination
        weights = u.reshape(len(u), self.samples, self.each)
        blocks = [each.combined(weights) for each in self.stored]
        return self.flat(blocks)

    def _adjoint(self, rows: Tensor) -> Tensor:
        """V^T x of rows x (k, size)."""
        products = []
        for each, matrix in zip(self.stored, self.matrices(rows)):
            products.append(each.products(matrix))
        total = torch.stack(products).sum(0)  # (k, samples, each)
        return total.flatten(1)

    def _rows(self, rows: Tensor) -> Tensor:
        return self._apply(self._adjoint(rows))

    def factor(self) -> Factor:
        """V itself, as products."""
        return Factor(self.size, self.count, self._apply, self._adjoint, self.device, self.dtype)

    def exact_trace(self) -> float:
        """The sum of squared lengths of all columns."""
        squares = [each.squared_norm() for each in self.stored]
        return float(sum(squares))

    @functools.cached_property
    def gram(self) -> Tensor:
        """V^T V (columns, columns)."""
        return self.cross_gram(self)

    def cross_gram(self, other: Columns) -> Tensor:
        """V^T W (columns, columns of the other)."""
        # layers are blocks of the same columns: their products add up
        grams = [_gram(mine, theirs) for mine, theirs in zip(self.stored, other.stored)]
        return sum(grams, start=torch.zeros_like(grams[0]))

    @functools.cached_property
    def _decomposed(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues of the Gram matrix, descending, and eigenvectors as columns."""
        values, vectors = torch.linalg.eigh(self.gram)
        largest_first = values.flip(0)
        return largest_first, vectors.flip(1)

    def inner(self, other: Any) -> float:
        """<A, B>: from Gram matrices, from the other's factors, or by products with the columns."""
        if isinstance(other, Columns):
            gram = self.gram if other is self else self.cross_gram(other)
            return float(gram.square().sum())
        if isinstance(other, Curvature):
            return other.inner(self)
        return self._inner_by_products(other)

    def _inner_by_products(self, other: Any) -> float:
        """sum_j v_j^T B v_j, some columns at a time: asks B for products only."""

        def work(width: int) -> float:
            total = 0.0
            for start in range(0, self.count, width):
                end = min(start + width, self.count)
                total += self._inner_of_some(other, start, end)
            return total

        # as many columns at once as fit in a chunk
        a_number = torch.finfo(self.dtype).bits // 8
        a_column = self.size * a_number
        fitting = chunk_bytes(self.device) // a_column
        width = max(1, fitting)
        return memory.halving(work, width, what="columns a product")

    def _inner_of_some(self, other: Any, start: int, end: int) -> float:
        """sum_j v_j^T B v_j over columns from `start` to `end`."""
        chosen = torch.arange(start, end, device=self.device)
        units = torch.zeros(len(chosen), self.count, device=self.device, dtype=self.dtype)
        units[torch.arange(len(chosen), device=self.device), chosen] = 1

        # columns of V, and what the other makes of them
        rows = self._apply(units)
        images = other.rows(rows.to(other.dtype))
        return float((rows * images.to(rows)).sum())

    def exact_spectrum(self) -> Tensor | None:
        """Eigenvalues of the Gram matrix, or of the matrix itself where that is smaller."""
        if self.count > LARGEST and self.size > DENSE:
            return None
        if self._is_small:
            return super().exact_spectrum()

        # with eigenvectors the Gram matrix may have been decomposed already
        if "_decomposed" in self.__dict__:
            values = self._decomposed[0]
        else:
            values = torch.linalg.eigvalsh(self.gram).flip(0)
        return values[: self.size].clamp(min=0)

    def eigenpairs(self, count: int, *, generator: torch.Generator | None = None) -> Eigenpairs:
        """Vectors V q / sqrt(lambda) of the Gram matrix's (lambda, q), without those of zero."""
        if self.count > LARGEST or self._is_small:
            return super().eigenpairs(count, generator=generator)
        values, mix = self._decomposed
        values = values[:count]
        mix = mix[:, :count]

        # an eigenvector of zero is not in the range of V
        eps = torch.finfo(values.dtype).eps
        rounding = self.count * eps * values[0]
        nonzero = values > rounding

        # V q has length sqrt(lambda), but for rounding
        rows = self._apply(mix[:, nonzero].T)
        lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        units = rows / lengths
        return direct_pairs(values[nonzero], units.T)


def _gram(mine: Stored, theirs: Stored) -> Tensor:
    if isinstance(mine, Positions) and isinstance(theirs, Positions):
        total = mine.inputs.new_zeros(*mine.errors.shape[:2], *theirs.errors.shape[:2])
        left = Factored(mine.inputs, mine.errors, weight=True, bias=False)
        right = Factored(theirs.inputs, theirs.errors, weight=True, bias=False)
        left.add_gram(total, left if mine is theirs else right)
        return total.flatten(2).flatten(0, 1)

    def products(some: slice, each: Tensor) -> Tensor:
        columns = each.flatten(0, 1)  # (m k, o, d)
        return mine.products(columns).flatten(1)

    return torch.cat(over_chunks(theirs, products)).T


def chunk_bytes(device: torch.device) -> int:
    """Bytes of gradients that are formed at once."""
    share = memory.available(device) // _CHUNK_SHARE
    return min(_CHUNK_BYTES, share)


def over_chunks(stored: Stored, work: Callable[[slice, Tensor], Answer]) -> list[Answer]:
    """What `work` makes of gradient matrices (m, k, o, d) of some samples at a time.

    Args:
        stored: The columns.
        work: Takes the samples and their matrices.

    Returns:
        What it gave, in the order of the samples.
    """
    samples = stored.shape[0]

    def chunks(step: int) -> list[Answer]:
        answers = []
        for start in range(0, samples, step):
            some = slice(start, start + step)
            answers.append(work(some, stored.matrices(some)))
        return answers

    # one sample tells how many fit
    one = stored.matrices(slice(0, 1))
    a_sample = one.numel() * one.element_size()
    fitting = max(1, chunk_bytes(one.device) // a_sample)
    step = min(fitting, samples)
    return memory.halving(chunks, step, what="samples whose gradients are formed")
