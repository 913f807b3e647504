"""Leading eigenpairs of a symmetric operator, each with its residual.

Small operators are decomposed at once; others go by restarted Lanczos (the fewest products), by
subspace iteration (the paper's), or by block Krylov spaces (the fewest passes, where a pass over
the data is what costs). Values are Rayleigh quotients of the Rayleigh-Ritz procedure, so signs are
preserved (norms, as in the paper's algorithm 5, lose them). A pair counts as converged when
|A x - lambda x| is at most `tolerance` times the largest |lambda|. Values, residuals and flags are
on the CPU in double precision.

References: Papyan, JMLR 2020, appendix C.8; Stewart, A Krylov-Schur algorithm for large
eigenproblems, 2001; Musco and Musco, Randomized block Krylov methods for stronger and faster
approximate singular value decomposition, NeurIPS 2015.
"""

from dataclasses import dataclass

import torch
from penchant_numerics.device import accumulation_dtype
from penchant_numerics.linear_algebra.lanczos import random_starts
from penchant_numerics.linear_algebra.operators import Dense, Operator
from penchant_numerics.refusal import Refusal
from torch import Tensor

ORDERS = ("magnitude", "largest")
METHODS = ("lanczos", "block-krylov")
DENSE_UP_TO = 2048  # rows up to which a matrix is decomposed: 32 megabytes
_LONG = 2**20  # entries from which on sums of single precision lose digits
_PIECE = 2**14  # entries of long vectors that are added up in single precision
_CLOSED = 64.0  # a new direction this many roundings long is no direction
_DEPENDENT = 1e-10  # the same in a block, where it is seen by its singular value


@dataclass(frozen=True)
class Eigenpairs:
    """Pairs in their order: descending, by absolute value or by value.

    >>> from penchant_numerics.linear_algebra import Dense
    >>> pairs = leading_pairs(Dense(torch.diag(torch.tensor([1.0, 3.0, 2.0], device="cpu"))), 2)
    >>> pairs.values.tolist(), pairs.converged.tolist(), pairs.products
    ([3.0, 2.0], [True, True], 0)
    """

    values: Tensor  # (count,), Rayleigh quotients
    vectors: Tensor  # (size, count), orthonormal columns
    residuals: Tensor  # (count,), |A x - lambda x|
    converged: Tensor  # (count,), bool
    products: int  # operator times vector; none where a matrix was decomposed
    passes: int = 0  # products with a block, of the methods that have blocks


def leading_pairs(
    A: Operator,
    count: int,
    *,
    generator: torch.Generator | None = None,
    dense_up_to: int = DENSE_UP_TO,
    method: str = "lanczos",
    order: str = "largest",
    products: int = 1000,
    tolerance: float = 1e-4,
) -> Eigenpairs:
    """The `count` leading pairs: exactly where the matrix is small, else by products with it.

    Args:
        A: The operator.
        count: How many pairs; all of them where the operator has fewer.
        generator: For start vectors; only products need it.
        dense_up_to: Rows up to which the matrix is formed and decomposed.
        method: How larger ones go: `lanczos`, or `block-krylov` for positive operators.
        order: `largest` values first, or largest `magnitude`.
        products: Products with a vector after which the search ends, converged or not.
        tolerance: Residual, relative to the largest |value|, of a pair that has converged.

    Returns:
        The pairs, with residuals; `products` is 0 where they are exact.

    >>> A = Dense(torch.diag(torch.tensor([1.0, -5.0, 3.0], device="cpu")))
    >>> leading_pairs(A, 2).values.tolist()
    [3.0, 1.0]
    """
    count = min(count, A.size)
    if method not in METHODS:
        known = ", ".join(METHODS)
        raise Refusal(f"method must be one of {known}, found {method!r}")
    if A.size <= dense_up_to:
        matrix = A.matrix if isinstance(A, Dense) else A.dense()
        return exact_pairs(matrix, count, order=order)
    if generator is None:
        raise Refusal(
            f"eigenpairs of {A.size} rows are found by products with random vectors: "
            "expected a generator, found none"
        )
    if method == "block-krylov":
        return block_krylov_pairs(
            A, count, generator=generator, passes=max(1, products // count), tolerance=tolerance
        )
    return lanczos_eigenpairs(
        A, count, generator=generator, products=products, tolerance=tolerance, order=order
    )


def exact_pairs(
    matrix: Tensor, count: int, *, order: str = "largest", symmetrise: bool = False
) -> Eigenpairs:
    """Pairs of a symmetric matrix by `eigh`, in double precision.

    Args:
        matrix: The matrix (size, size).
        count: How many pairs.
        order: `largest` values first, or largest `magnitude`.
        symmetrise: Decompose the mean of both triangles. `eigh` reads the lower one; they differ
            by rounding where a matrix was made by products.

    Returns:
        The pairs; residuals are those of the matrix as it was given.

    >>> exact_pairs(torch.diag(torch.tensor([1.0, 3.0], device="cpu")), 1).values
    tensor([3.], dtype=torch.float64)
    """
    _check_order(order, count, len(matrix))
    wide = matrix.to(accumulation_dtype(matrix.device))
    symmetric = (wide + wide.T) / 2 if symmetrise else wide
    values, vectors = torch.linalg.eigh(symmetric)

    # eigh has the smallest first
    if order == "largest":
        values = values.flip(0)[:count]
        vectors = vectors.flip(1)[:, :count]
    else:
        first = _ordered(values, order)[:count]
        values = values[first]
        vectors = vectors[:, first]

    # of the matrix as it was given
    differences = wide @ vectors - vectors * values
    residuals = torch.linalg.vector_norm(differences, dim=0)
    return Eigenpairs(
        values=values.to("cpu", torch.float64),
        vectors=vectors.to(matrix.dtype),
        residuals=residuals.to("cpu", torch.float64),
        converged=torch.ones(count, device="cpu", dtype=torch.bool),
        products=0,
    )


def subspace_iteration(
    A: Operator,
    count: int,
    *,
    generator: torch.Generator,
    iterations: int = 128,
    tolerance: float = 1e-4,
    extra: int = 2,
    start: Tensor | None = None,
) -> Eigenpairs:
    """The pairs of largest absolute value, by repeated products with a block of vectors.

    Args:
        A: The operator.
        count: How many pairs.
        generator: For the start vectors.
        iterations: Products with the block at most; it stops when all pairs have converged.
        tolerance: Residual, relative to the largest |value|, of a pair that has converged.
        extra: Vectors of the block beyond the requested ones.
        start: Columns (size, k) of earlier pairs to go on from, taken as they are.

    Returns:
        The pairs, by absolute value.

    >>> A = Dense(torch.diag(torch.tensor([1.0, -5.0, 3.0], device="cpu")))
    >>> pairs = subspace_iteration(A, 2, generator=torch.Generator("cpu"))
    >>> [round(float(value), 4) for value in pairs.values]
    [-5.0, 3.0]
    """
    width = min(A.size, count + extra)
    block = random_starts(width, A, generator=generator)  # (width, size), rows
    if start is not None:
        known = start.T.to(block)
        block = torch.cat([known, block])[:width]
    for number in range(1, iterations + 1):
        # a product brings the block nearer to the leading vectors
        basis = _orthonormal(block)
        block = A.multiply_rows(basis)
        pairs = _rayleigh_ritz(
            basis, block, count, tolerance=tolerance, products=number * width, order="magnitude"
        )
        if bool(pairs.converged.all()):
            break
    return pairs


def lanczos_eigenpairs(
    A: Operator,
    count: int,
    *,
    generator: torch.Generator,
    products: int = 1000,
    tolerance: float = 1e-4,
    order: str = "magnitude",
    width: int | None = None,
) -> Eigenpairs:
    """The leading pairs by restarted Lanczos: far fewer products than subspace iteration.

    A full basis is cut back to its leading Ritz vectors and the direction that all their residuals
    share. The search ends when bounds on the residuals say so, or after about this many products.

    Args:
        A: The operator.
        count: How many pairs.
        generator: For the start vector, and for fresh ones where a Krylov space closes.
        products: Products with a vector after which the search ends, converged or not.
        tolerance: Residual, relative to the largest |value|, of a pair that has converged.
        order: `largest` values first, or largest `magnitude`.
        width: Vectors of the basis; the default grows with `count`.

    Returns:
        The pairs in that order.

    >>> from penchant_numerics.linear_algebra import Dense
    >>> A = Dense(torch.diag(torch.linspace(0, 1, 50, device="cpu", dtype=torch.float64)))
    >>> pairs = lanczos_eigenpairs(A, 1, generator=torch.Generator("cpu").manual_seed(0))
    >>> round(float(pairs.values[0]), 6)
    1.0
    """
    _check_order(order, count, A.size)
    requested = width or max(3 * count, count + 20)
    space = _KrylovSpace(A, min(A.size, requested), generator=generator)
    while True:
        while space.filled < space.width:
            space.grow()
        values, mix = torch.linalg.eigh(space.projected())
        first = _ordered(values, order)
        leading = mix[:, first[:count]]

        # enough, or no more products, or nothing more to find
        bounds = space.beyond * leading[-1].abs()
        allowed = tolerance / 2 * values.abs().max()
        done = bool((bounds <= allowed).all())
        spent = space.products + space.width > products
        if done or spent or space.width == A.size:
            break
        # more than requested, so that less is lost
        staying = (count + space.width) // 2
        space.cut(values, mix, first[:staying])

    # residuals as they are, not as they are bounded
    basis = space.basis[: space.filled]
    rows = leading.T.to(A.device, A.dtype) @ basis
    return _rayleigh_ritz(
        rows,
        A.multiply_rows(rows),
        count,
        tolerance=tolerance,
        products=space.products + count,
        order=order,
    )


class _KrylovSpace:
    """A Q^T = Q^T H + beyond * next e_last^T for rows Q: grown by a vector, cut to Ritz vectors."""

    def __init__(self, A: Operator, width: int, *, generator: torch.Generator) -> None:
        self.A = A
        self.width = width
        self.generator = generator
        # Q, and what A is in it
        self.basis = torch.zeros(width, A.size, device=A.device, dtype=A.dtype)
        self.H = torch.zeros(width, width, device="cpu", dtype=torch.float64)
        # how far it is, and where it goes on
        self.filled = 0
        self.products = 0
        self.beyond = 0.0
        self.next = self._fresh()

    def _fresh(self) -> Tensor:
        """A random unit vector outside the space."""
        start = random_starts(1, self.A, generator=self.generator)[0]
        for _ in range(2):
            inner = self.basis @ start
            start = start - self.basis.T @ inner
            start = start / _lengths(start)
        return start

    def grow(self) -> None:
        """Take the next vector in, and orthogonalise its product against all."""
        position = self.filled
        self.basis[position] = self.next
        self.filled += 1
        basis = self.basis[: self.filled]
        (w,) = self.A.multiply_rows(self.next[None])
        self.products += 1
        scale = float(_lengths(w))

        # twice is enough (Giraud et al., 2005)
        for _ in range(2):
            coefficients = _inner(basis, w)
            w = w - basis.T @ coefficients.to(w)
            self.H[: self.filled, position] += coefficients.to("cpu", torch.float64)

        # where nothing new is left the space has closed: go on somewhere else
        self.beyond = float(_lengths(w))
        rounding = _CLOSED * torch.finfo(w.dtype).eps
        closed = self.beyond <= rounding * scale
        if closed:
            self.beyond = 0.0
        if self.filled == self.A.size:
            return
        if closed:
            self.next = self._fresh()
        else:
            self.next = w / self.beyond

    def projected(self) -> Tensor:
        """H, symmetric: what orthogonalisation found above the diagonal holds below it too."""
        used = slice(0, self.filled)
        upper = self.H[used, used].triu()
        above = upper.triu(1)
        return upper + above.T

    def cut(self, values: Tensor, mix: Tensor, chosen: Tensor) -> None:
        """Keep the chosen Ritz vectors of the space, whose eigenvectors in it are `mix`."""
        # combinations of the old vectors take their positions
        count = len(chosen)
        weights = mix[:, chosen].T.to(self.basis)
        old = self.basis[: self.filled]
        self.basis[:count] = weights @ old
        self.basis[count:] = 0

        # they are orthogonal, and A is diagonal in them
        self.H.zero_()
        positions = range(count)
        self.H[positions, positions] = values[chosen]
        self.filled = count


def block_krylov_pairs(
    A: Operator,
    count: int,
    *,
    generator: torch.Generator,
    passes: int,
    tolerance: float,
    extra: int = 4,
) -> Eigenpairs:
    """The leading pairs of a positive operator from the space of V, A V, A^2 V, ...

    The space is orthonormalised in full. Every pass is one product with a block, which is all that
    is needed of the operator: `operators.Applied` makes one of a function of rows.

    Args:
        A: The operator.
        count: How many pairs.
        generator: For the block V, sampled in double precision.
        passes: Products with a block after which the search ends, converged or not.
        tolerance: Residual, relative to the largest value, of a pair that has converged.
        extra: Vectors of the block beyond the requested ones.

    Returns:
        The pairs, largest first, and how many passes they took.

    >>> A = Dense(torch.diag(torch.arange(50.0, device="cpu", dtype=torch.float64)))
    >>> generator = torch.Generator("cpu").manual_seed(0)
    >>> pairs = block_krylov_pairs(A, 2, generator=generator, passes=20, tolerance=1e-8)
    >>> pairs.values.round(decimals=6).tolist()
    [49.0, 48.0]
    """
    _check_order("largest", count, A.size)
    width = min(count + extra, A.size)
    start = torch.randn(width, A.size, generator=generator, dtype=torch.float64, device="cpu")
    block = torch.linalg.qr(start.T).Q.T.to(A.device, A.dtype)
    basis = images = block[:0]
    for number in range(1, passes + 1):
        # one pass, and what the space knows with it
        image = A.multiply_rows(block)
        basis = torch.cat([basis, block])
        images = torch.cat([images, image])
        pairs = _block_ritz(basis, images, count, tolerance=tolerance, passes=number)
        block = _new_directions(basis, image)
        if bool(pairs.converged.all()) or not len(block):
            break
    return pairs


def _block_ritz(
    basis: Tensor, images: Tensor, count: int, *, tolerance: float, passes: int
) -> Eigenpairs:
    """The largest Ritz pairs of a space with orthonormal rows, given the products with them."""
    small = _inner(images, basis).to(basis)
    symmetric = (small + small.T) / 2
    values, mix = descending_eigh(symmetric)
    values = values[:count]
    mix = mix[:count]

    # |A x - lambda x| without another product
    vectors = mix @ basis
    differences = mix @ images - values[:, None] * vectors
    residuals = _lengths(differences)
    converged = residuals <= tolerance * values[0]
    return Eigenpairs(
        values=values.to("cpu", torch.float64),
        vectors=vectors.T,
        residuals=residuals.to("cpu", torch.float64),
        converged=converged.cpu(),
        products=len(basis),
        passes=passes,
    )


def _new_directions(basis: Tensor, image: Tensor) -> Tensor:
    """An orthonormal basis of what the image has beyond the space so far."""
    scale = image.norm(dim=1).max()
    # twice is enough
    for _ in range(2):
        image = _outside(image, basis)

    # directions that are more than rounding
    _, lengths, rows = torch.linalg.svd(image, full_matrices=False)
    fresh = rows[lengths > _DEPENDENT * scale]
    fresh = _outside(fresh, basis)
    Q: Tensor = torch.linalg.qr(fresh.T).Q

    # no more than there is room for
    filled, size = basis.shape
    return Q.T[: size - filled]


def _outside(rows: Tensor, basis: Tensor) -> Tensor:
    """Rows without their components along an orthonormal basis."""
    inside = _inner(rows, basis).to(basis) @ basis
    return rows - inside


def _inner(rows: Tensor, others: Tensor) -> Tensor:
    """Inner products (a, b) of rows (a, size) and (b, size), or (a,) of rows and a vector (size,).

    Sums of ten million terms in single precision are wrong by up to 1 %: long vectors are cut into
    pieces, whose sums are added up in double precision.
    """
    columns = others.T if others.dim() > 1 else others  # (size, b), or (size,)
    if len(columns) < _LONG:
        return rows @ columns
    wide = accumulation_dtype(rows.device)
    total = torch.zeros(len(rows), *columns.shape[1:], device=rows.device, dtype=wide)
    for left, right in zip(rows.split(_PIECE, dim=1), columns.split(_PIECE)):
        total += left @ right
    return total


def _lengths(rows: Tensor) -> Tensor:
    """Lengths of rows (..., size), added up in double precision where they are long."""
    long = rows.shape[-1] >= _LONG
    wide = accumulation_dtype(rows.device) if long else None
    axis = -1 if rows.dim() > 1 else None
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=axis, dtype=wide)
    return lengths.to(rows.dtype)


def _check_order(order: str, count: int, size: int) -> None:
    """Refuse an unknown order, and more pairs than there are."""
    possible = 1 <= count <= size
    if order not in ORDERS or not possible:
        known = ", ".join(ORDERS)
        raise Refusal(
            f"order must be one of {known} and count in 1..{size}, found {order!r} and {count}"
        )


def _ordered(values: Tensor, order: str) -> Tensor:
    """Indices of values, leading ones first."""
    keys = values
    if order == "magnitude":
        keys = values.abs()
    _, indices = keys.sort(descending=True)
    return indices


def _orthonormal(rows: Tensor) -> Tensor:
    """Rows of the same span that are orthonormal."""
    Q: Tensor = torch.linalg.qr(rows.T).Q
    return Q.T.contiguous()


def _rayleigh_ritz(
    basis: Tensor, images: Tensor, count: int, *, tolerance: float, products: int, order: str
) -> Eigenpairs:
    """The best pairs in the span of orthonormal rows, given the operator's products with them."""
    small = _inner(basis, images).to("cpu", torch.float64)
    symmetric = (small + small.T) / 2
    values, mix = torch.linalg.eigh(symmetric)
    chosen = _ordered(values, order)[:count]
    values = values[chosen]
    mix = mix[:, chosen].T.to(basis)  # (count, width)

    # |A x - lambda x| without another product
    vectors = mix @ basis
    scales = values[:, None].to(basis)
    differences = mix @ images - scales * vectors
    residuals = _lengths(differences).to("cpu", torch.float64)
    return Eigenpairs(
        values=values,
        vectors=vectors.T,
        residuals=residuals,
        converged=residuals <= tolerance * values.abs().max(),
        products=products,
    )


def descending_eigh(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, descending, and eigenvectors as rows.

    Each vector has its largest entry positive, so that signs are definite.

    >>> values, rows = descending_eigh(torch.diag(torch.tensor([1.0, 2.0], device="cpu")))
    >>> values.tolist(), rows.tolist()
    ([2.0, 1.0], [[0.0, 1.0], [1.0, 0.0]])
    """
    values, columns = torch.linalg.eigh(matrix)
    # torch has them ascending
    rows = columns.flip(1).T
    return values.flip(0), definite_signs(rows)


def definite_signs(rows: Tensor) -> Tensor:
    """Rows with their largest entries positive.

    >>> definite_signs(torch.tensor([[1.0, -2.0]], device="cpu")).tolist()
    [[-1.0, 2.0]]
    """
    positions = rows.abs().argmax(1, keepdim=True)
    largest = rows.gather(1, positions)
    negative = largest < 0
    signs = torch.where(negative, -1.0, 1.0)
    return rows * signs.to(rows.dtype)
