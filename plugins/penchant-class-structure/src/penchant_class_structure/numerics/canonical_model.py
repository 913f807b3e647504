"""The canonical classification model, x = t e_c + N(0, I) in R^D, and logistic regression on it.

There are C balanced classes and f = W x. With probabilities p of a sample, G = Ave (x x^T) x
(diag p - p p^T), the x in the middle a Kronecker product. With p = 1 - a for the class and
a / (C - 1) for every other, the expected G has four eigenspaces, spanned by e_k x u where u is
orthogonal to ones: for k <= C the outliers have u along C e_k - 1, the mini-bulk u orthogonal to
e_k; for k > C there is the bulk; u = 1 belongs to zero.

Reference: Papyan, JMLR 2020, theorem 8.1.
"""

from __future__ import annotations

import torch
from torch import Tensor

SPACES = ("outliers", "mini-bulk", "bulk", "zeros")


def multiplicities(classes: int, dimension: int) -> Tensor:
    """Dimensions (4,) of the eigenspaces.

    >>> multiplicities(4, 12).tolist(), int(multiplicities(4, 12).sum())
    ([4, 8, 24, 12], 48)
    """
    C, D = classes, dimension
    return torch.tensor([C, C * (C - 2), (D - C) * (C - 1), D], device="cpu")


def theory(classes: int, separation: float, alpha: float) -> Tensor:
    """Eigenvalues (4,) of the expected G.

    >>> [round(float(value), 4) for value in theory(4, 2.0, 0.3)]
    [0.44, 0.26, 0.16, 0.0]
    """
    C, s = classes, separation**2
    r = 2 - alpha * C / (C - 1)
    values = [s * (1 - alpha) + r, s / C + r, r, 0.0]
    return (
        torch.tensor(
            values,
            device="cpu",
            dtype=torch.float64,
        )
        * alpha
        / (C - 1)
    )


def symmetric_probabilities(labels: Tensor, classes: int, alpha: float) -> Tensor:
    """P (n, C): 1 - a for a sample's class, a / (C - 1) for every other."""
    shape = (len(labels), classes)
    other = alpha / (classes - 1)
    p = torch.full(
        shape,
        other,
        device=labels.device,
        dtype=torch.float64,
    )
    return p.scatter(1, labels[:, None], 1 - alpha)


def traces_on_eigenspaces(x: Tensor, p: Tensor) -> Tensor:
    """Each sample's trace (n, 4) on each eigenspace over its dimension.

    They follow from u^T (diag p - p p^T) u = C / (C - 1) p_k (1 - p_k).
    """
    C = p.shape[1]
    squares, p = x.double().square(), p.double()
    U = p * (1 - p)  # (n, C), the diagonal of diag p - p p^T
    whole, along = U.sum(1, keepdim=True), C / (C - 1) * U
    ones = (p.sum(1) - p.sum(1).square()) / C  # zero: kept to show that it is
    first, rest = squares[:, :C], squares[:, C:].sum(1)
    parts = [
        (first * along).sum(1),
        (first * (whole - along)).sum(1),
        rest * whole[:, 0],
        squares.sum(1) * ones,
    ]
    return torch.stack(parts, dim=1) / multiplicities(C, x.shape[1]).to(x.device)


def mean_and_stderr(values: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (k,) over samples (n, k) and its standard error.

    Classes have fixed sizes, so only the spread inside them counts.
    """
    variance = torch.zeros(
        values.shape[1],
        device=values.device,
        dtype=values.dtype,
    )
    for label in labels.unique():
        own = values[labels == label]
        variance += (len(own) / len(values)) ** 2 * own.var(0) / len(own)
    return values.mean(0).cpu(), variance.sqrt().cpu()


def gauss_newton(x: Tensor, p: Tensor) -> Tensor:
    """G (D C, D C) of the sample."""
    x, p = x.double(), p.double()
    diagonal = torch.einsum("nd,ne,nc->cde", x, x, p)
    products = x[:, :, None] * p[:, None]  # (n, D, C)
    G = -torch.einsum("ndc,nek->dcek", products, products)
    own = torch.arange(p.shape[1], device=x.device)
    G[:, own, :, own] += diagonal
    return G.reshape(x.shape[1] * p.shape[1], -1) / len(x)
