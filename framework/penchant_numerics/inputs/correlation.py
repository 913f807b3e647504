r"""Corr, the Frobenius cosine of two matrices, from samples: unbiased norms, and its rotation null.

The norm of a sampled matrix is biased upwards: for isotropic gradients of $T$ networks the plain
$\operatorname{Corr}(G, I)$ is $1 / \sqrt{1 + D / T}$. Here every product is between independent
groups of networks.

Two positive matrices always have a large Corr, so beside it stands the Corr after rotating one of
the two by a random orthogonal matrix R, which keeps both spectra. Over the orthogonal group its
mean is that of the traces, and its variance follows from Schur's lemma: symmetric matrices without
trace are an irreducible representation of dimension n = (D - 1) (D + 2) / 2, so

    E <A0, R B0 R^T>^2 = |A0|^2 |B0|^2 / n.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor


class Corr(NamedTuple):
    """A cosine with its standard error.

    >>> jackknifed(lambda groups: len(groups) / 4, 4)
    Corr(value=1.75, stderr=0.0)
    """

    value: float
    stderr: float


class RotatedCorr(NamedTuple):
    """Mean and standard deviation of a cosine over random rotations of one matrix.

    >>> rotated(0.0, 1.0, 2.0, 1.0, 2).null  # without a trace, no orientation is preferred
    0.0
    """

    null: float
    null_spread: float


# ---- from tables of products


def cosine(product: float, squared_first: float, squared_second: float) -> float:
    """<A, B> / (|A| |B|).

    Args:
        product: <A, B>.
        squared_first: |A|^2.
        squared_second: |B|^2.

    Returns:
        The cosine; NaN where an unbiased squared norm is not positive: there is too little signal.

    >>> cosine(2.0, 4.0, 4.0)
    0.5
    """
    square = squared_first * squared_second
    too_little = squared_first <= 0 or square <= 0
    if too_little:
        return math.nan
    return product / math.sqrt(square)


def distinct_mean(table: Tensor, chosen: Sequence[int]) -> float:
    """Mean of a table of products over pairs of different groups.

    Args:
        table: <A_i, B_j>, (groups, groups).
        chosen: The groups that count.

    >>> import torch
    >>> table = torch.tensor([[9.0, 2.0], [4.0, 9.0]], device="cpu")
    >>> distinct_mean(table, [0, 1])
    3.0
    """
    indices = list(chosen)
    count = len(indices)
    block = table[indices][:, indices]
    # without those of a group with itself
    own = block.diagonal().sum()
    total = block.sum() - own
    pairs = count * (count - 1)
    return float(total / pairs)


def corr_with_fixed(products: Tensor, table: Tensor, squared_fixed: float) -> Corr:
    """Corr(A, B) of a sampled A and a given B, by the jackknife over groups.

    Args:
        products: <A_i, B> of the groups of A, (groups,).
        table: <A_i, A_j>, (groups, groups).
        squared_fixed: |B|^2.

    Returns:
        The cosine and its standard error over groups.

    >>> import torch
    >>> products = torch.tensor([0.6, 0.6, 0.6], device="cpu")
    >>> corr = corr_with_fixed(products, torch.ones(3, 3, device="cpu"), squared_fixed=1.0)
    >>> round(corr.value, 6), round(corr.stderr, 6)
    (0.6, 0.0)
    """

    def statistic(chosen: list[int]) -> float:
        product = float(products[chosen].mean())
        squared_sampled = distinct_mean(table, chosen)
        return cosine(product, squared_sampled, squared_fixed)

    return jackknifed(statistic, len(products))


def corr_of_sampled(cross: Tensor, first: Tensor, second: Tensor) -> Corr:
    """Corr(A, B) where both are sampled from the same groups, by the jackknife over groups.

    Args:
        cross: <A_i, B_j>, (groups, groups).
        first: <A_i, A_j>.
        second: <B_i, B_j>.

    Returns:
        The cosine and its standard error over groups.

    >>> import torch
    >>> ones = torch.ones(4, 4, device="cpu")
    >>> corr_of_sampled(0.5 * ones, ones, ones)
    Corr(value=0.5, stderr=0.0)
    """

    def statistic(chosen: list[int]) -> float:
        product = distinct_mean(cross, chosen)
        squared_first = distinct_mean(first, chosen)
        squared_second = distinct_mean(second, chosen)
        return cosine(product, squared_first, squared_second)

    return jackknifed(statistic, len(cross))


def jackknifed(statistic: Callable[[list[int]], float], groups: int) -> Corr:
    """A statistic of independent groups, its bias of order 1/groups taken away, with its error.

    The bias matters: networks differ in the norms of their gradients, and the mean of few unequal
    numbers is larger than the root of their mean product, so a plain Corr of six networks may well
    be 1.1.

    Args:
        statistic: Called with the indices of the groups to use.
        groups: Number of groups.

    >>> numbers = [1.0, 2.0, 6.0]
    >>> mean = lambda groups: sum(numbers[g] for g in groups) / len(groups)
    >>> jackknifed(mean, 3).value
    3.0
    """
    # each group is left out once
    everything = list(range(groups))
    left_out = []
    for group in everything:
        others = everything[:group] + everything[group + 1 :]
        left_out.append(statistic(others))

    # the bias is (groups - 1) times how far their mean is from the whole
    mean = sum(left_out) / groups
    whole = statistic(everything)
    value = groups * whole - (groups - 1) * mean

    # and the error follows from their spread
    squares = sum((each - mean) ** 2 for each in left_out)
    variance = (groups - 1) / groups * squares
    stderr = math.sqrt(variance)
    return Corr(value, stderr)


# ---- the null of random rotations


def rotated(
    trace_first: float, trace_second: float, squared_first: float, squared_second: float, size: int
) -> RotatedCorr:
    r"""Mean and standard deviation of $\operatorname{Corr}(A, R B R^\top)$ over random rotations.

    Args:
        trace_first: Tr A.
        trace_second: Tr B.
        squared_first: |A|^2.
        squared_second: |B|^2.
        size: D of the matrices (D, D).

    Returns:
        Mean and standard deviation; NaN where a squared norm is not positive.

    >>> rotated(2.0, 1.0, 2.0, 1.0, 2)          # the identity looks the same from everywhere
    RotatedCorr(null=0.7071067811865475, null_spread=0.0)
    """
    if squared_first <= 0 or squared_second <= 0:
        return RotatedCorr(math.nan, math.nan)
    # Corr of each with the identity; unbiased norms may make it a little too large
    norm_first = math.sqrt(size * squared_first)
    norm_second = math.sqrt(size * squared_second)
    first = _at_most_one(trace_first / norm_first)
    second = _at_most_one(trace_second / norm_second)

    # what is left without the traces, spread over the dimensions of the representation
    freedom = (1 - first**2) * (1 - second**2)
    dimension = max(1.0, (size - 1) * (size + 2) / 2)
    spread = math.sqrt(freedom / dimension)
    return RotatedCorr(first * second, spread)


def _at_most_one(value: float) -> float:
    not_above = min(1.0, value)
    return max(-1.0, not_above)


# ---- from moments of groups


def unbiased_square(groups: Tensor) -> Tensor:
    """|A|^2 of the mean A of groups (groups, D, D), without the bias of sampling.

    The mean of <A_g, A_h> over pairs of different groups.

    >>> import torch
    >>> groups = torch.stack([torch.eye(2, device="cpu"), 3 * torch.eye(2, device="cpu")])
    >>> float(unbiased_square(groups))  # <I, 3 I>
    6.0
    """
    count = len(groups)
    all_pairs = count**2 * inner_of_means(groups, groups)
    same_group = groups.square().sum()
    pairs = count * (count - 1)
    return (all_pairs - same_group) / pairs


def inner_of_means(first: Tensor, second: Tensor) -> Tensor:
    """<A, B> of the means of groups (groups, D, D)."""
    products = first.mean(0) * second.mean(0)
    return products.sum()


def corr_of_means(first: Tensor, second: Tensor) -> Tensor:
    """Corr(A, B) of the means of groups (groups, D, D), where no network is in groups of both.

    >>> import torch
    >>> groups = torch.eye(2, device="cpu").expand(3, 2, 2)
    >>> float(corr_of_means(groups, groups))
    1.0
    """
    product = inner_of_means(first, second)
    square = unbiased_square(first)
    other_square = unbiased_square(second)
    return product / (square * other_square).sqrt()


def rotated_corr_of_means(first: Tensor, second: Tensor) -> Tensor:
    """The mean of `corr_of_means` after a random rotation of one: tr A tr B / (D |A| |B|).

    >>> import torch
    >>> groups = torch.tensor([[1.0, 0.0], [0.0, 0.0]], device="cpu").expand(3, 2, 2)
    >>> float(rotated_corr_of_means(groups, groups))  # 1 / D
    0.5
    """
    size = first.shape[-1]
    trace = first.mean(0).trace()
    other_trace = second.mean(0).trace()
    product = trace * other_trace / size
    square = unbiased_square(first)
    other_square = unbiased_square(second)
    return product / (square * other_square).sqrt()
