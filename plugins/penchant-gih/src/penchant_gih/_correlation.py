"""Corr, the Frobenius cosine of two matrices, from samples: unbiased norms, standard errors, and what a random rotation would give.

A sampled matrix has too large a norm: for isotropic gradients of T networks the plain Corr(G, I) is 1/sqrt(1 + D/T). Here every inner
product is between independent parts of the networks. Two positive matrices always have a large Corr, so beside it stands the
Corr after rotating one of the two by a random orthogonal matrix, which keeps both spectra. Over the orthogonal group its mean is
that of the traces, and its variance follows from Schur's lemma: symmetric matrices without trace are an irreducible
representation of dimension n = (D - 1)(D + 2)/2, so E <A0, R B0 R^T>^2 = |A0|^2 |B0|^2 / n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Estimate(NamedTuple):
    """A value with its standard error."""

    value: float
    stderr: float


def jackknife(statistic: Callable[[list[int]], float], parts: int) -> Estimate:
    """A statistic of independent parts, given as their numbers, with its standard error, from leaving out one part at a time.

    The bias of order 1/parts is taken away as well. It matters: networks differ in the norms of their gradients, and the mean of few
    unequal numbers is larger than the root of their mean product, so a plain Corr of six networks may well be 1.1.
    """
    everything = list(range(parts))
    left_out = [statistic(everything[:part] + everything[part + 1 :]) for part in everything]
    mean = sum(left_out) / parts
    value = parts * statistic(everything) - (parts - 1) * mean
    return Estimate(
        value, math.sqrt((parts - 1) / parts * sum((each - mean) ** 2 for each in left_out))
    )


def distinct_mean(table: Tensor, keep: Sequence[int]) -> float:
    """Mean of a table (parts, parts) over pairs of different parts."""
    chosen = table[list(keep)][:, list(keep)]
    count = len(chosen)
    return float((chosen.sum() - chosen.diagonal().sum()) / (count * (count - 1)))


def cosine(product: float, squared_first: float, squared_second: float) -> float:
    """Product over norms; not a number where an unbiased squared norm is not positive: there is too little signal."""
    square = squared_first * squared_second
    return product / math.sqrt(square) if squared_first > 0 and square > 0 else math.nan


def corr_with_fixed(products: Tensor, table: Tensor, squared_fixed: float) -> Estimate:
    """Corr(A, B) of sampled A and given B: products <A_i, B> (parts,), table <A_i, A_j> (parts, parts), |B|^2."""

    def statistic(keep: list[int]) -> float:
        return cosine(float(products[keep].mean()), distinct_mean(table, keep), squared_fixed)

    return jackknife(statistic, len(products))


def corr_of_sampled(cross: Tensor, first: Tensor, second: Tensor) -> Estimate:
    """Corr(A, B) where both are sampled from the same parts: tables <A_i, B_j>, <A_i, A_j>, <B_i, B_j>."""

    def statistic(keep: list[int]) -> float:
        return cosine(
            distinct_mean(cross, keep), distinct_mean(first, keep), distinct_mean(second, keep)
        )

    return jackknife(statistic, len(cross))


def rotation_null(
    trace_first: float, trace_second: float, squared_first: float, squared_second: float, size: int
) -> Estimate:
    """Mean and standard deviation of Corr(A, R B R^T) over random orthogonal R, from traces and squared norms."""
    if squared_first <= 0 or squared_second <= 0:
        return Estimate(math.nan, math.nan)
    first = _at_most_one(trace_first / math.sqrt(size * squared_first))  # Corr with the identity
    second = _at_most_one(trace_second / math.sqrt(size * squared_second))
    freedom = (1 - first**2) * (1 - second**2)
    return Estimate(first * second, math.sqrt(freedom / max(1.0, (size - 1) * (size + 2) / 2)))


def _at_most_one(value: float) -> float:
    """A cosine whose unbiased norms made it a little too large."""
    return max(-1.0, min(1.0, value))


def containment_null(trace: float, squared_norm: float, size: int, rank: int) -> float:
    """|P A P| / |A| for a random subspace of this dimension (root of the mean square)."""
    uniform = trace**2 / size
    freedom = (size - 1) * (size + 2) / 2
    inside = (
        uniform * rank / size
        + (squared_norm - uniform) * (rank * (rank + 1) / 2 - rank / size) / freedom
    )
    return math.sqrt(max(0.0, inside) / squared_norm) if squared_norm > 0 else math.nan


def squared_products(first: Tensor, second: Tensor) -> Tensor:
    """<A_i, B_j> (networks, networks) of A_i = mean_p a_ip a_ip^T, B_j alike, from a, b (networks, inputs, D)."""
    inputs = first.shape[1] * second.shape[1]
    products = torch.einsum("ipd,jqd->ijpq", first, second)
    return products.square().sum((2, 3)) / inputs


def quadratic_forms(vectors: Tensor, matrix: Tensor) -> Tensor:
    """<A_i, B> (networks,) of A_i = mean_p a_ip a_ip^T, from a (networks, inputs, D)."""
    return (vectors @ matrix * vectors).sum(2).mean(1)
