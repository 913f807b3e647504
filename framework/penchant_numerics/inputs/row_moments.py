"""Second moments of fewer vectors than inputs: by the vectors themselves, never by a matrix.

With rows g_1 .. g_T in D > T dimensions, (1/T) sum_t g_t g_t^T has the T eigenvalues of the Gram
matrix <g_s, g_t> / T, and its eigenvectors are combinations of the rows. That is exact, costs T D
numbers instead of D^2, and leaving out vectors is leaving out rows and columns of the Gram matrix.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from penchant_numerics.device import accumulation_dtype
from penchant_numerics.linear_algebra import definite_signs
from penchant_numerics.roles import Directions
from torch import Tensor

LARGEST_MATRIX = 2048  # inputs up to which the matrix is formed, whatever the number of vectors
_COLUMNS = 2**14  # entries of all rows that are in double precision at once


def by_rows(vectors: int, size: int) -> bool:
    """Whether a moment is stored as its rows: a rule of the two numbers only.

    >>> by_rows(16, 3 * 224 * 224), by_rows(200, 1024), by_rows(5000, 3072)
    (True, False, False)
    """
    large = size > LARGEST_MATRIX
    return large and vectors < size


def gram(rows: Tensor) -> Tensor:
    """Inner products (vectors, vectors) of rows (vectors, size), summed in double precision.

    >>> gram(torch.tensor([[1.0, 2.0], [0.0, 1.0]], device="cpu"))
    tensor([[5., 2.],
            [2., 1.]], dtype=torch.float64)
    """
    count = len(rows)
    total = torch.zeros(count, count, device=rows.device, dtype=accumulation_dtype(rows.device))
    # a double copy of some columns at a time, always the same ones
    for columns in rows.split(_COLUMNS, dim=1):
        doubled = columns.to(total.dtype)
        total.addmm_(doubled, doubled.T)
    return total


def spectrum(products: Tensor, weights: Tensor, *, centred: bool = False) -> Tensor:
    """Eigenvalues of sum_t w_t g_t g_t^T, from inner products of the vectors.

    Args:
        products: Inner products (vectors, vectors).
        weights: The w, (vectors,); they sum to one.
        centred: Whether the moment is around the weighted mean.

    Returns:
        As many eigenvalues as vectors, descending; rounding below zero is zero.

    >>> products = gram(torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]], device="cpu"))
    >>> equal = torch.full((2,), 0.5, device="cpu", dtype=torch.float64)
    >>> [round(value, 6) for value in spectrum(products, equal).tolist()]
    [2.0, 0.5]
    """
    if centred:
        products = _centred(products, weights)
    roots = weights.sqrt()
    scaled = roots[:, None] * products * roots
    values: Tensor = torch.linalg.eigvalsh(scaled)
    descending = values.flip(0)
    return descending.clamp(min=0)


def _centred(products: Tensor, weights: Tensor) -> Tensor:
    """Inner products of the vectors without their weighted mean."""
    to_mean = products @ weights
    mean_square = weights @ to_mean
    return products - to_mean[:, None] - to_mean + mean_square


def left_out_spectra(
    products: Tensor, *, groups: int, centred: bool = False, rank: int
) -> Tensor | None:
    """Eigenvalues with one group of the vectors left out at a time; vector t is in t mod groups.

    Vectors beyond equal groups are never left out: a spectrum depends on the number of
    vectors, so groups of unequal size would be taken for spread.

    Args:
        products: Inner products (vectors, vectors).
        groups: Number of groups.
        centred: Whether the moment is around the mean.
        rank: How many eigenvalues.

    Returns:
        Eigenvalues (groups, rank), descending; None where a group would be empty.
    """
    count = len(products)
    even = count // groups * groups
    if not even or groups < 2:
        return None
    numbers = torch.arange(count, device=products.device)
    uneven = numbers >= even
    spectra = []
    for group in range(groups):
        # all but the group have equal weights
        others = numbers % groups != group
        stays = others | uneven
        weights = stays.to(products.dtype)
        weights /= weights.sum()
        values = spectrum(products, weights, centred=centred)
        spectra.append(values[:rank])
    return torch.stack(spectra)


def eigenpairs(rows: Tensor, products: Tensor, *, rank: int) -> tuple[Tensor, Tensor]:
    """Leading pairs of the second moment of rows.

    Args:
        rows: The vectors (vectors, size).
        products: Their inner products (vectors, vectors), centred where the moment is.
        rank: How many pairs.

    Returns:
        Eigenvalues (rank,), descending, and orthonormal vectors (rank, size).

    >>> rows = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]], device="cpu", dtype=torch.float64)
    >>> values, vectors = eigenpairs(rows, gram(rows), rank=1)
    >>> values.tolist(), vectors.abs().tolist()
    ([2.0], [[0.0, 1.0, 0.0]])
    """
    values, columns = torch.linalg.eigh(products / len(rows))
    leading = columns.flip(1)[:, :rank]

    # combinations of the rows, some entries at a time
    combined = []
    for entries in rows.split(_COLUMNS, dim=1):
        combined.append(entries.T.to(leading.dtype) @ leading)
    vectors = torch.cat(combined)  # (size, rank)

    # they are orthogonal up to the rounding of small eigenvalues, which is taken out
    lengths = vectors.norm(dim=0)
    tiny = torch.finfo(vectors.dtype).tiny
    orthonormal, _ = torch.linalg.qr(vectors / lengths.clamp(min=tiny))
    descending = values.flip(0)
    eigenvalues = descending[:rank].clamp(min=0)
    return eigenvalues, definite_signs(orthonormal.T)


def directions_of_rows(
    rows: Tensor,
    *,
    centred: bool = False,
    groups: int = 8,
    conventions: Mapping[str, str] | None = None,
) -> Directions:
    """Eigenvectors of the second moment of one vector per network, from the vectors.

    Args:
        rows: Vectors (networks, size), fewer than inputs.
        centred: Whether the moment is around the mean.
        groups: Groups of the jackknife.
        conventions: What makes the numbers incomparable with others, by name.

    Returns:
        Pairs, trace, jackknife and the rows; the matrix is not formed.

    >>> lengths = torch.tensor([4.0, 2.0, 2.0, 0.0], device="cpu")
    >>> rows = lengths[:, None] * torch.eye(4, 9, device="cpu")
    >>> directions = directions_of_rows(rows, groups=2)
    >>> directions.trace, round(float(directions.eigenvalues[0]), 6)  # (16 + 4 + 4 + 0) / 4
    (6.0, 4.0)
    """
    count = len(rows)
    products = gram(rows)
    norms = products.diagonal().clone()
    rank = min(count - int(centred), rows.shape[1])
    spectra = left_out_spectra(products, groups=groups, centred=centred, rank=rank)

    # around the mean, rows and their products are those without it
    centred_rows = rows
    if centred:
        centred_rows = rows - rows.mean(0)
        equal = torch.full_like(norms, 1 / count)
        products = _centred(products, equal)
    # eigenvectors of centred products take the mean out of the rows by themselves
    eigenvalues, vectors = eigenpairs(rows, products, rank=rank)
    return Directions(
        eigenvalues,
        vectors,
        trace=float(products.trace() / count),
        trace_stderr=float(norms.std() / math.sqrt(count)),
        networks=count,
        squared_norms=norms,
        jackknife=spectra,
        rows=centred_rows,
        conventions=dict(conventions or {}),
    )


def group_products(products: Tensor, members: Sequence[Tensor]) -> Tensor:
    """<A_i, A_j> of the moments A_i of groups of the vectors, from their inner products.

    Args:
        products: Inner products (vectors, vectors).
        members: Numbers of the vectors of each group.

    Returns:
        The table (groups, groups): <a a^T, b b^T> = <a, b>^2, averaged.

    >>> products = gram(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], device="cpu"))
    >>> first, second = torch.tensor([0, 1], device="cpu"), torch.tensor([2], device="cpu")
    >>> group_products(products, [first, second]).tolist()  # (1 / 2) |I|^2, and <I / 2, a a^T> = 1
    [[0.5, 1.0], [1.0, 4.0]]
    """
    squares = products.square()
    table = []
    for first in members:
        rows = squares[first]
        entries = [rows[:, second].mean() for second in members]
        table.append(torch.stack(entries))
    return torch.stack(table)
