"""Eigenvalues that stand out: how many by the largest gap, and how much of their eigenspace the class means span."""

from __future__ import annotations

from typing import NamedTuple

import torch
from penchant_numerics.eigenpairs import lanczos_eigenpairs
from penchant_numerics.operators import Dense, Operator
from torch import Tensor

DENSE = 2048  # rows up to which all eigenpairs of a matrix are computed


class Gap(NamedTuple):
    """A gap in a descending spectrum: eigenvalues in front of it, ratio across it, ratio of that to the next largest."""

    position: int
    ratio: float
    margin: float


def largest_gap(values: Tensor, first: int, last: int) -> Gap:
    """The largest ratio lambda_k / lambda_{k+1} with k in first..last; `values` (m,) descend and are positive.

    >>> largest_gap(torch.tensor([9.0, 8.0, 7.0, 1.0, 0.5], device="cpu"), 2, 4)[:2]
    (3, 7.0)
    """
    last = min(last, int((values > 0).sum()) - 1)
    if last < first:
        raise ValueError(
            f"a gap after {first} or more eigenvalues needs {first + 1} that are positive, found {int((values > 0).sum())}"
        )
    ratios = values[first - 1 : last].double() / values[first : last + 1].double()
    order = ratios.sort(descending=True)
    second = float(order.values[1]) if len(ratios) > 1 else 1.0
    return Gap(
        first + int(order.indices[0]), float(order.values[0]), float(order.values[0]) / second
    )


class Leading(NamedTuple):
    """Leading eigenpairs of an operator in sample space."""

    values: Tensor  # (k,), descending, double precision, on the CPU
    vectors: Tensor  # (k, n C), orthonormal rows
    residuals: Tensor  # (k,)
    converged: bool


def leading_pairs(K: Operator, count: int, *, generator: torch.Generator, products: int) -> Leading:
    """The largest eigenvalues: of a small matrix all at once, else by restarted Lanczos."""
    count = min(count, K.size)
    if isinstance(K, Dense) and K.size <= DENSE:
        values, vectors = torch.linalg.eigh(K.matrix.double())
        values, rows = values.flip(0)[:count].cpu(), vectors.flip(1).T[:count].to(K.dtype)
        return Leading(values, rows, torch.zeros(count, device="cpu", dtype=torch.float64), True)
    found = lanczos_eigenpairs(K, count, generator=generator, products=products, order="largest")
    return Leading(found.values, found.vectors.T, found.residuals, bool(found.converged.all()))


def share_in_span(leading: Leading, rows: Tensor, products: Tensor) -> float:
    """Mean squared length of the part of unit eigenvectors of G in the span of V u, for rows u (r, n C) with products u K u^T.

    An eigenvector of G is x = V y / sqrt(lambda) for the eigenvector y of K, so (V u)^T x = sqrt(lambda) u y.
    """
    values, vectors = torch.linalg.eigh(products)
    kept = values > 64 * torch.finfo(rows.dtype).eps * values[-1]
    overlaps = (rows.double() @ leading.vectors.double().T).cpu() * leading.values.clamp(
        min=0
    ).sqrt()  # (r, k)
    inside = values[kept].rsqrt()[:, None] * (vectors[:, kept].T @ overlaps)
    return float(inside.square().sum() / len(leading.values))
