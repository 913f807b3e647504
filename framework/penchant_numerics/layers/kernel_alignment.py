"""What kernels tell: centring, alignment (CKA), and eigenfunctions on new points.

A kernel of C outputs has n C rows, sample after sample: row i C + y. Two centrings are in use.
`outputs` takes each output's own mean over samples away from its features, C_n x I_C (what the
published code of tangent-feature alignment does); `all` takes one mean over all n C features away,
C_{nC} (what its text says). Centred kernel alignment is the cosine <K, K'> / (|K| |K'|) of centred
kernels. Its plain form is biased upwards where samples are few: even independent features align.
The unbiased form replaces each inner product by the U-statistic over distinct samples.

References: Cortes, Mohri and Rostamizadeh, Algorithms for learning kernels based on centered
alignment, JMLR 2012; Song et al., Feature selection via dependence maximization, JMLR 2012 (the
unbiased estimator); Baratin et al., Implicit regularization via neural feature alignment, 2021;
Williams and Seeger, Using the Nystroem method to speed up kernel machines, 2000.
"""

import math

import torch
from penchant_numerics.refusal import Refusal
from torch import Tensor

CENTRINGS = ("outputs", "all", "none")
_DISTINCT = 4  # samples that the unbiased estimator needs at least


def centre(
    K: Tensor, *, outputs: int, centring: str = "outputs", reference: Tensor | None = None
) -> Tensor:
    """K of centred features.

    Args:
        K: A kernel (n C, m C).
        outputs: C.
        centring: Around each output's own mean over samples (`outputs`), around one mean (`all`),
            or not at all (`none`).
        reference: The kernel (m C, m C) among the samples of K's columns. With it, both sides are
            centred around the mean of these: new points beside those a kernel was made for.
            Without it each side has its own mean, as a square kernel should.

    Returns:
        The centred kernel (n C, m C).

    >>> K = torch.tensor([[1.0, 0.0], [0.0, 3.0]], device="cpu")
    >>> centre(K, outputs=1).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    _check(centring)
    if centring == "none":
        return K
    # one mean over everything is that of a single output
    group = outputs if centring == "outputs" else 1
    four = _by_output(K, group)
    around = four
    if reference is not None:
        around = _by_output(reference, group)

    # <phi - mean, phi' - mean> multiplied out
    rows = around.mean(0, keepdim=True)  # (1, C, m, C): the mean on the left
    columns = four.mean(2, keepdim=True)  # (n, C, 1, C): the mean on the right
    both = rows.mean(2, keepdim=True)
    return (four - rows - columns + both).reshape(K.shape)


def cka(
    K: Tensor, other: Tensor, *, outputs: int, centring: str = "outputs", unbiased: bool = False
) -> float:
    """Centred kernel alignment of two kernels on the same samples, in double precision.

    Args:
        K: A kernel (n C, n C).
        other: Another.
        outputs: C.
        centring: `outputs`, `all` or `none`, as in `centre`.
        unbiased: Take inner products over distinct samples only. Independent features then align
            by 0 on average; single values may be negative, or beyond 1 by chance.

    Returns:
        The cosine: 1 for equal kernels, and between 0 and 1 for positive ones if not `unbiased`.

    >>> K = torch.diag(torch.tensor([1.0, 2.0, 3.0], device="cpu"))
    >>> cka(K, K, outputs=1)
    1.0
    """
    _check(centring)
    left, right = K.double(), other.double()
    if not unbiased:
        left = centre(left, outputs=outputs, centring=centring)
        right = centre(right, outputs=outputs, centring=centring)
        product = (left * right).sum()
        norms = left.norm() * right.norm()
        return float(product / norms)

    group = 1 if centring == "all" else outputs
    left = _by_output(left, group)
    right = _by_output(right, group)
    inner = _over_pairs if centring == "none" else _over_distinct
    squares = inner(left, left) * inner(right, right)
    if squares <= 0:
        raise Refusal(
            f"the unbiased norms of these kernels are not positive: {len(left)} samples are too few"
        )
    scale: float = squares**0.5
    return inner(left, right) / scale


def _over_pairs(K: Tensor, L: Tensor) -> float:
    """Mean K_ij L_ij over pairs of distinct samples, for kernels (n, C, n, C)."""
    n = len(K)
    whole = (K * L).sum()
    own = (_diagonal(K) * _diagonal(L)).sum()
    pairs = n * (n - 1)
    return float(whole - own) / pairs


def _over_distinct(K: Tensor, L: Tensor) -> float:
    """The U-statistic of the inner product of centred kernels (n, C, n, C).

    For each pair of outputs it estimates E[k l] - E[k k'] over rows - the same over columns +
    E[k] E[l], each a mean over distinct samples; sums over all tuples are corrected for those in
    which samples meet.
    """
    n = len(K)
    if n < _DISTINCT:
        raise Refusal(f"the unbiased estimator needs {_DISTINCT} samples, found {n}")
    # a sample with itself is no pair
    K = _without_diagonal(K)
    L = _without_diagonal(L)

    # the same pair of samples in both factors, in one order or in the other
    same = (K * L).sum()
    crossed = (K.transpose(0, 2) * L).sum()

    # one sample in both: sums over the other, (n, C, C)
    K_rows = K.sum(2)
    L_rows = L.sum(2)
    K_columns = K.sum(0).transpose(0, 1)
    L_columns = L.sum(0).transpose(0, 1)
    by_row = (K_rows * L_rows).sum()
    by_column = (K_columns * L_columns).sum()
    forth = (K_rows * L_columns).sum()
    back = (K_columns * L_rows).sum()
    across = forth + back

    # no sample in both
    K_all = K_rows.sum(0)
    L_all = L_rows.sum(0)
    everything = (K_all * L_all).sum()

    # triples and quadruples of samples that are all different
    triples = by_row + by_column - 2 * same
    quadruples = everything - by_row - by_column - across + same + crossed

    # each over how many there are
    pairs_mean = same / math.perm(n, 2)
    triples_mean = triples / math.perm(n, 3)
    quadruples_mean = quadruples / math.perm(n, 4)
    return float(pairs_mean - triples_mean + quadruples_mean)


def eigenfunctions(K_new: Tensor, values: Tensor, vectors: Tensor) -> Tensor:
    """Eigenvectors of a kernel as functions of new points: u_j(x) = K(x, X) u_j / lambda_j.

    At the points X of the kernel they are its eigenvectors. A centred kernel needs K(x, X) centred
    around the same mean: `centre(K_new, reference=K)`.

    Args:
        K_new: The kernel (m C, n C) of new points against those of the eigenvectors.
        values: Eigenvalues (k,) of the kernel (n C, n C); not zero to rounding.
        vectors: Its eigenvectors (n C, k), as columns.

    Returns:
        The functions (m C, k) at the new points, in double precision.

    >>> K = torch.tensor([[2.0, 0.0], [0.0, 1.0]], device="cpu")
    >>> values, vectors = torch.linalg.eigh(K)
    >>> torch.equal(eigenfunctions(K, values, vectors), vectors.double())
    True
    """
    rounding = torch.finfo(vectors.dtype).eps * len(vectors)
    sizes = values.abs()
    vanishing = sizes <= rounding * sizes.max()
    if bool(vanishing.any()):
        zeros = int(vanishing.sum())
        raise Refusal(
            f"an eigenfunction needs an eigenvalue that is not zero, found {zeros} "
            f"of {len(values)} that are zero to rounding: use the leading ones"
        )
    scaled = vectors.double() / values.to(vectors.device).double()
    return K_new.double() @ scaled


def _check(centring: str) -> None:
    if centring not in CENTRINGS:
        known = ", ".join(CENTRINGS)
        raise Refusal(f"centring must be one of {known}, found {centring!r}")


def _by_output(K: Tensor, outputs: int) -> Tensor:
    """K (n C, m C) as (n, C, m, C)."""
    rows, columns = K.shape
    n = rows // outputs
    m = columns // outputs
    return K.reshape(n, outputs, m, outputs)


def _diagonal(K: Tensor) -> Tensor:
    """The blocks (C, C, n) of single samples, as a view."""
    return K.diagonal(dim1=0, dim2=2)


def _without_diagonal(K: Tensor) -> Tensor:
    """K (n, C, n, C) with zeros where a sample meets itself."""
    copy = K.clone()
    _diagonal(copy).zero_()
    return copy
