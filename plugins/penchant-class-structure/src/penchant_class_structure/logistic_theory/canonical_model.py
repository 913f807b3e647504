"""The canonical classification model, x = t e_c + N(0, I) in R^D, and logistic regression on it.

There are C balanced classes and f = W x. With probabilities p of a sample, G = Ave (x x^T) x
(diag p - p p^T), the x in the middle a Kronecker product. With p = 1 - a for the class and
a / (C - 1) for every other, the expected G has four eigenspaces, spanned by e_k x u where u is
orthogonal to ones: for k <= C the outliers have u along C e_k - 1, the mini-bulk u orthogonal to
e_k; for k > C there is the bulk; u = 1 belongs to zero.

Reference: Papyan, JMLR 2020, theorem 8.1.
"""

import torch
from torch import Tensor

SPACES = ("outliers", "mini-bulk", "bulk", "zeros")


def multiplicities(classes: int, dimension: int) -> Tensor:
    """Dimensions (4,) of the eigenspaces.

    >>> multiplicities(4, 12).tolist(), int(multiplicities(4, 12).sum())
    ([4, 8, 24, 12], 48)
    """
    C, D = classes, dimension
    mini_bulk = C * (C - 2)
    bulk = (D - C) * (C - 1)
    dimensions = [C, mini_bulk, bulk, D]
    return torch.tensor(dimensions, device="cpu")


def theory(classes: int, separation: float, alpha: float) -> Tensor:
    """Eigenvalues (4,) of the expected G.

    >>> [round(float(value), 4) for value in theory(4, 2.0, 0.3)]
    [0.44, 0.26, 0.16, 0.0]
    """
    C, s = classes, separation**2

    # what all non-zero eigenvalues have in common
    r = 2 - alpha * C / (C - 1)
    values = [s * (1 - alpha) + r, s / C + r, r, 0.0]
    return torch.tensor(values, device="cpu", dtype=torch.float64) * alpha / (C - 1)


def symmetric_probabilities(labels: Tensor, classes: int, alpha: float) -> Tensor:
    """P (n, C): 1 - a for a sample's class, a / (C - 1) for every other."""
    shape = (len(labels), classes)
    other = alpha / (classes - 1)
    p = torch.full(shape, other, device=labels.device, dtype=torch.float64)
    return p.scatter(1, labels[:, None], 1 - alpha)


def traces_on_eigenspaces(x: Tensor, p: Tensor) -> Tensor:
    """Each sample's trace (n, 4) on each eigenspace over its dimension.

    They follow from u^T (diag p - p p^T) u = C / (C - 1) p_k (1 - p_k).
    """
    C = p.shape[1]
    squares = x.double().square()
    p = p.double()

    # the diagonal of diag p - p p^T, and what it is along each class's direction
    U = p * (1 - p)  # (n, C)
    whole = U.sum(1, keepdim=True)
    along = C / (C - 1) * U
    ones = (p.sum(1) - p.sum(1).square()) / C  # zero: computed to show that it is

    # coordinates of the classes, and all others
    first = squares[:, :C]
    rest = squares[:, C:].sum(1)
    columns = [
        (first * along).sum(1),
        (first * (whole - along)).sum(1),
        rest * whole[:, 0],
        squares.sum(1) * ones,
    ]
    counts = multiplicities(C, x.shape[1])
    return torch.stack(columns, dim=1) / counts.to(x.device)


def mean_and_stderr(values: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (k,) over samples (n, k) and its standard error.

    Classes have fixed sizes, so only the spread inside them counts.
    """
    variance = torch.zeros(values.shape[1], device=values.device, dtype=values.dtype)

    # samples of one class are independent draws
    for label in labels.unique():
        own = values[labels == label]
        variance += (len(own) / len(values)) ** 2 * own.var(0) / len(own)
    return values.mean(0).cpu(), variance.sqrt().cpu()


def gauss_newton(x: Tensor, p: Tensor) -> Tensor:
    """G (D C, D C) of the sample."""
    x = x.double()
    p = p.double()
    D = x.shape[1]
    C = p.shape[1]

    # Ave (x x^T) x (diag p - p p^T): the second term is in all blocks
    diagonal = torch.einsum("nd,ne,nc->cde", x, x, p)
    products = x[:, :, None] * p[:, None]  # (n, D, C)
    G = -torch.einsum("ndc,nek->dcek", products, products)

    # diag p is in the blocks of one class
    own = torch.arange(C, device=x.device)
    G[:, own, :, own] += diagonal
    return G.reshape(D * C, -1) / len(x)
