"""KFAC and CFAC: samples in groups, and in each group errors independent of inputs.

For a linear layer with inputs h and scaled errors s (`kronecker_moments`), Gauss-Newton is
sum_ik (h_i h_i^T) x (s_ik s_ik^T). With samples in groups g of n_g,

    sum_g H_g x Delta_g,    H_g = Ave_{i in g} h_i h_i^T,    Delta_g = sum_{i in g, k} s_ik s_ik^T.

One group is KFAC (Martens and Grosse 2015), classes are CFAC (Papyan, JMLR 2020, definition 7.2;
classes weigh what they hold, so it is the paper's average for balanced ones); with every sample a
group it is Gauss-Newton itself. A convolution counts positions as samples (`expand`: Grosse and
Martens 2016, Eschenhagen et al. 2023): H averages over them, Delta sums.

Over several layers (Khatri-Rao) block (l, l') is H^{ll'} x Delta^{ll'}, moments between the layers.
Positions of two convolutions have no common order, so means of inputs and sums of errors are taken
in all blocks (`reduce`): the whole is positive. With expanded blocks on the diagonal it would not
be, and is refused.

Damped inverses of a Kronecker product, by eigenvectors of its factors.

Among these the product is diagonal, and so is what damping adds to it. Martens and Grosse (2015)
damp both factors instead.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from penchant_numerics import Refusal
from penchant_numerics.device import memory
from penchant_numerics.linear_algebra import Eigenpairs, Factor
from torch import Tensor

from penchant_curvature.shared.columns import (
    Columns,
    Gradients,
    Stored,
    between_positions,
    over_chunks,
)
from penchant_curvature.shared.curvature_operator import Curvature, dense_inner, direct_pairs
from penchant_curvature.shared.linear_layers import Layer
from penchant_curvature.shared.moment_sums import Moments


class KroneckerSum(Curvature):
    """sum_g H_g x Delta_g over some layers; several layers need the `groups` (n,) of samples."""

    def __init__(
        self,
        layers: Sequence[Layer],
        factors: Sequence[Moments],
        *,
        groups: Tensor | None = None,
        by_class: bool = False,
    ) -> None:
        first = factors[0].H[0]
        super().__init__(layers, device=first.device, dtype=first.dtype)
        self.factors = tuple(factors)
        self.by_class = by_class
        joined = groups is not None and all(each.inputs is not None for each in factors)
        if len(layers) > 1 and not joined:
            raise Refusal(f"{len(layers)} layers need the groups of samples and joined moments")

        # samples of each group, for blocks between layers
        self.members: list[Tensor] = []
        if groups is not None:
            self.members = [torch.nonzero(groups == g)[:, 0] for g in range(self.groups)]

    @property
    def groups(self) -> int:
        """How many groups samples are in."""
        return len(self.factors[0].H)

    @property
    def _is_single(self) -> bool:
        """Whether one Kronecker product is all of it, so that its factors know its spectrum."""
        one_group = self.groups == 1
        return one_group and len(self.layers) == 1

    def block(self, group: int, row: int, column: int) -> tuple[Tensor, Tensor]:
        """H (d, d') and Delta (o, o') of a group between two layers."""
        left, right = self.factors[row], self.factors[column]
        if row == column:
            return left.H[group], left.Delta[group]

        # moments between two layers, of means over positions and of sums
        inside = self.members[group]
        inputs, errors = left.joined()
        other_inputs, other_errors = right.joined()
        H = inputs[inside].T @ other_inputs[inside]
        mine = errors[inside].flatten(0, 1)  # (m k, o)
        theirs = other_errors[inside].flatten(0, 1)
        Delta = mine.T @ theirs
        return H / len(inside), Delta

    def _rows(self, rows: Tensor) -> Tensor:
        def work(together: int) -> Tensor:
            products = [self._product(chunk) for chunk in rows.split(together)]
            if len(products) == 1:
                return products[0]
            return torch.cat(products)

        return memory.halving(work, len(rows), what="vectors a product of factors")

    def _product(self, rows: Tensor) -> Tensor:
        """The product with rows (k, size), all at once."""
        given = self.matrices(rows)
        products = [_block_product(each, matrix) for each, matrix in zip(self.factors, given)]

        if len(given) == 1:
            return self.flat(products)

        # layers are joined by the samples of each group
        for group in self.members:
            self._add_between_layers(products, given, group)
        return self.flat(products)

    def _add_between_layers(
        self, blocks: list[Tensor], given: list[Tensor], inside: Tensor
    ) -> None:
        """Add S_l (sum_{l'} S_l'^T X_l' A_l') A_l^T / n: blocks off the diagonal, none formed."""
        joined = [each.joined() for each in self.factors]
        inputs = [each[inside] for each, _ in joined]  # (m, d)
        errors = [each[inside].flatten(0, 1) for _, each in joined]  # (m k, o)

        # what the samples see of each layer's matrix, and of all of them together
        seen = []
        for S, X, A in zip(errors, given, inputs):
            seen.append(S @ X @ A.T)  # (r, m k, m)
        total = torch.stack(seen).sum(0)

        # every layer is given what the others made
        for number, sum_ in enumerate(blocks):
            others = total - seen[number]
            sum_ += errors[number].T @ others @ inputs[number] / len(inside)

    @functools.cached_property
    def _both_roots(self) -> list[tuple[Tensor, Tensor]]:
        """R (d, r) and Q (o, q) of each group's H = R R^T and Delta = Q Q^T, of a single layer."""
        (factors,) = self.factors
        roots = []
        for H, Delta, R in zip(factors.H, factors.Delta, factors.roots):
            # few samples are a root already
            of_inputs = _root(H) if R is None else R
            of_errors = _root(Delta)
            roots.append((of_inputs, of_errors))
        return roots

    def factor(self) -> Factor | None:
        """V with a column for every pair of columns of a group's roots.

        Of a single layer, and while they are fewer than parameters.
        """
        if len(self.layers) > 1:
            return None

        # (H x Delta) = (R x Q) (R x Q)^T: a column for every pair
        shapes = [(Q.shape[1], R.shape[1]) for R, Q in self._both_roots]
        counts = [rows * columns for rows, columns in shapes]
        pairs = sum(counts)
        if pairs >= self.size:
            return None

        def apply(u: Tensor) -> Tensor:
            # every group has its block of the combination
            blocks = u.split(counts, dim=1)
            total: Any = 0
            for (R, Q), shape, block in zip(self._both_roots, shapes, blocks):
                weights = block.reshape(-1, *shape)
                total = total + Q @ weights @ R.T
            return self.flat([total])

        def adjoint(v: Tensor) -> Tensor:
            (given,) = self.matrices(v)
            seen = []
            for R, Q in self._both_roots:
                turned = Q.T @ given @ R
                seen.append(turned.flatten(1))
            return torch.cat(seen, dim=1)

        return Factor(self.size, pairs, apply, adjoint, self.device, self.dtype)

    def exact_trace(self) -> float:
        """The sum over groups and layers of Tr H Tr Delta."""
        traces = []
        for each in self.factors:
            for H, Delta in zip(each.H, each.Delta):
                trace = H.trace() * Delta.trace()
                traces.append(trace)
        total = torch.stack(traces).sum()
        return float(total)

    def inner(self, other: Any) -> float:
        """<A, B>, from factors on both sides, or from columns on the other."""
        if isinstance(other, KroneckerSum):
            return self._inner_of_factors(other)
        if isinstance(other, Columns):
            return self._inner_of_columns(other)
        return dense_inner(self, other)

    def _inner_of_factors(self, other: KroneckerSum) -> float:
        """Sum over blocks and pairs of groups of <H, H'> <Delta, Delta'>."""
        total = 0.0
        for row in range(len(self.layers)):
            for column in range(row + 1):
                mine = self._blocks(row, column)
                theirs = mine
                if other is not self:
                    theirs = other._blocks(row, column)
                inputs = _pairwise(mine[0], theirs[0])
                errors = _pairwise(mine[1], theirs[1])
                # a block off the diagonal stands for its transpose, too
                times = 1 if row == column else 2
                products = (inputs * errors).sum()
                total += float(products) * times
        return total

    def _blocks(self, row: int, column: int) -> tuple[list[Tensor], list[Tensor]]:
        """H and Delta of all groups between two layers."""
        inputs, errors = [], []
        for group in range(self.groups):
            H, Delta = self.block(group, row, column)
            inputs.append(H)
            errors.append(Delta)
        return inputs, errors

    def _inner_of_columns(self, other: Columns) -> float:
        """sum_ik v_ik^T A v_ik."""
        total = 0.0
        for group in range(self.groups):
            for row, left in enumerate(other.stored):
                for column, right in enumerate(other.stored[: row + 1]):
                    H, Delta = self.block(group, row, column)
                    square = _quadratic(left, right, H, Delta)
                    times = 1 if row == column else 2
                    total += square * times
        return total

    def exact_spectrum(self) -> Tensor | None:
        """With one group and one layer, products of the factors' eigenvalues."""
        if not self._is_single:
            return super().exact_spectrum()
        (factors,) = self.factors
        inputs = torch.linalg.eigvalsh(factors.H[0])
        errors = torch.linalg.eigvalsh(factors.Delta[0])

        # eigenvalues that only rounding made negative are zero
        inputs, errors = inputs.clamp(min=0), errors.clamp(min=0)
        products = torch.outer(inputs, errors).flatten()
        ordered = products.sort(descending=True)
        return ordered.values

    def eigenpairs(self, count: int, *, generator: torch.Generator | None = None) -> Eigenpairs:
        """With one group and one layer, products of the factors' eigenvectors."""
        if not self._is_single:
            return super().eigenpairs(count, generator=generator)
        (factors,) = self.factors
        inputs, left = torch.linalg.eigh(factors.H[0])
        errors, right = torch.linalg.eigh(factors.Delta[0])

        # an eigenvector of a Kronecker product is an outer product of two
        products = torch.outer(errors, inputs).flatten()
        fewer = min(count, self.size)
        top = products.topk(fewer)
        matrices = []
        for position in top.indices.tolist():
            row, column = divmod(position, len(inputs))
            of_errors = right[:, row]
            of_inputs = left[:, column]
            matrix = torch.outer(of_errors, of_inputs)
            matrices.append(matrix)

        # pairs have flat vectors
        stacked = torch.stack(matrices)
        rows = self.layers[0].rows(stacked)
        return direct_pairs(top.values, rows.T)

    def inverse(self, damping: float, *, kind: str = "exact") -> KroneckerInverse:
        """The damped inverse, of one group and one layer.

        Args:
            damping: What is added to eigenvalues, above 0.
            kind: `exact`: (H x Delta + damping)^-1; `factored`: the inverse of
                (H + sqrt damping) x (Delta + sqrt damping), Martens and Grosse's.

        Returns:
            An operator.
        """
        if not self._is_single:
            raise Refusal(
                "a damped inverse needs a single Kronecker product, found "
                f"{self.groups} groups of samples in {len(self.layers)} layers"
            )
        return KroneckerInverse(self.layers, self.factors[0], damping, kind)


def _root(matrix: Tensor) -> Tensor:
    """R (d, rank) of a positive matrix R R^T (d, d)."""
    values, vectors = torch.linalg.eigh(matrix)
    # eigenvalues that only rounding made are no directions
    eps = torch.finfo(values.dtype).eps
    rounding = len(values) * eps * values[-1]
    nonzero = values > rounding
    lengths = values[nonzero].sqrt()
    root: Tensor = vectors[:, nonzero] * lengths
    return root


def _block_product(factors: Moments, matrices: Tensor) -> Tensor:
    """sum_g Delta_g X H_g for matrices X (r, o, d)."""
    total = torch.zeros_like(matrices)
    for H, Delta, R in zip(factors.H, factors.Delta, factors.roots):
        if R is None:
            total += Delta @ matrices @ H
        else:
            # a root makes the product cheaper where a group has few samples
            total += Delta @ (matrices @ R) @ R.T
    return total


def _pairwise(mine: list[Tensor], theirs: list[Tensor]) -> Tensor:
    """Inner products of all pairs of matrices."""
    left = _flattened(mine)
    right = left if theirs is mine else _flattened(theirs)
    return left @ right.T


def _flattened(matrices: list[Tensor]) -> Tensor:
    """A row a matrix."""
    rows = [each.flatten() for each in matrices]
    return torch.stack(rows)


def _quadratic(left: Stored, right: Stored, H: Tensor, Delta: Tensor) -> float:
    """sum_ik <v_ik, Delta v'_ik H^T> for columns v of one layer and v' of another."""
    if not isinstance(left, Gradients) and not isinstance(right, Gradients):
        products = between_positions(left, right, H, Delta)
        return float(products.sum())

    # some samples at a time, because gradients are large
    def of_some(some: slice, mine: Tensor) -> Tensor:
        theirs = Delta @ right.matrices(some) @ H.T
        products = mine * theirs
        return products.sum()

    return float(sum(over_chunks(left, of_some)))


class KroneckerInverse(Curvature):
    """(H x Delta + damping)^-1, or both factors damped, by eigenvectors of the factors."""

    def __init__(
        self, layers: Sequence[Layer], factors: Moments, damping: float, kind: str
    ) -> None:
        if damping <= 0 or kind not in ("exact", "factored"):
            raise Refusal(
                "expected damping above 0 and kind exact or factored, "
                f"found {damping:g} and {kind!r}"
            )
        H, Delta = factors.H[0], factors.Delta[0]
        super().__init__(layers, device=H.device, dtype=H.dtype)
        inputs, self._inputs = torch.linalg.eigh(H)
        errors, self._errors = torch.linalg.eigh(Delta)

        # eigenvalues that only rounding made negative are zero
        inputs, errors = inputs.clamp(min=0), errors.clamp(min=0)
        if kind == "exact":
            damped = torch.outer(errors, inputs) + damping
        else:
            root = math.sqrt(damping)
            damped = torch.outer(errors + root, inputs + root)
        self._inverse = damped.reciprocal()  # (o, d)

    def _rows(self, rows: Tensor) -> Tensor:
        (given,) = self.matrices(rows)
        # among eigenvectors of both factors the inverse is one number per entry
        turned = self._errors.T @ given @ self._inputs
        turned *= self._inverse
        back = self._errors @ turned @ self._inputs.T
        return self.flat([back])

    def exact_trace(self) -> float:
        """The sum of inverses."""
        return float(self._inverse.sum())

    def inner(self, other: Any) -> float:
        """<A, B> of small operators by their matrices."""
        return dense_inner(self, other)

    def exact_spectrum(self) -> Tensor:
        """The inverses, descending."""
        inverses = self._inverse.flatten()
        ordered = inverses.sort(descending=True)
        return ordered.values
