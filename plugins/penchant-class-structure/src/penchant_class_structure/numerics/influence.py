"""What a sample contributes to a number of G's, to first order; from these come standard errors.

A statistic T of n samples that weigh 1/n each has an influence of each sample, its derivative in
that sample's weight. With f_i = T + influence the mean of f is T and the standard error of T is
std(f) / sqrt(n): the infinitesimal jackknife.

- An eigenvalue lambda of G, with the unit eigenvector y of K: f_i = n lambda |y_i|^2, where y_i are
  the C entries of sample i. It holds for G less one of its components, too, because y is outside of
  the component, where the means are at a minimum of the squared distance.
- w |g|^2 of a weighted mean g = sum_i w_i g_i / w: f_i = n (2 w_i <g_i, g> - w_i |g|^2).

Reference: Efron, The jackknife, the bootstrap and other resampling plans, 1982, chapter 6.
"""

from __future__ import annotations

import torch
from torch import Tensor

from penchant_class_structure.numerics.decomposition import Decomposition


def stderr_of(contributions: Tensor) -> float | None:
    """The standard error of the mean of contributions (n,); None with fewer than two."""
    count = len(contributions)
    return float(contributions.std()) / count**0.5 if count > 1 else None


def of_eigenvalues(values: Tensor, vectors: Tensor, classes: int) -> Tensor:
    """Contributions (k, n) to eigenvalues (k,) of K.

    Args:
        values: Eigenvalues (k,).
        vectors: Unit eigenvectors as columns (n C, k).
        classes: Entries C of a sample.
    """
    squares = vectors.T.double().square().cpu()
    by_sample = squares.reshape(len(values), -1, classes).sum(2)
    return by_sample.shape[1] * values[:, None] * by_sample


def of_ratio(above: Tensor, below: Tensor) -> Tensor:
    """Contributions (n,) to a ratio of two numbers, from theirs (n,)."""
    ratio = above.mean() / below.mean()
    change = above / above.mean() - below / below.mean()
    return ratio * (1 + change)


def of_components(decomposition: Decomposition, images: Tensor, M: Tensor) -> dict[str, Tensor]:
    """Contributions (n,) of samples to the traces of all components.

    Args:
        decomposition: Of G, with K as a matrix.
        images: K a_{c,c'} (C^2, n C), by `pair_images`.
        M: Inner products (C^2, C^2) of the means.

    Returns:
        By component: `class`, `cross`, `within`, `diagonal`, `total`.
    """
    space = decomposition.space
    labels = decomposition.labels.cpu()
    classes, count = decomposition.classes, len(labels)
    within = decomposition.within.double().cpu()  # (n, C)
    across = decomposition.across.double().cpu()  # (C, C)

    # <a sample's column, the mean it belongs to>, for each label: entry (i, c') of K a_{y_i, c'}
    shape = (classes, classes, count, classes)
    numbers = torch.arange(count, device="cpu")
    toward = images.double().cpu().reshape(shape)[labels, :, numbers]  # (n, C of the mean, C)
    own = toward.diagonal(
        dim1=1,
        dim2=2,
    )  # (n, C)
    lengths = M.diagonal().reshape(classes, classes)[labels]  # (n, C)
    pairs = count * (2 * within * own - within.square() * lengths)

    # class vectors are combinations of these means, their entries products of both roots
    entries = within * across[labels]  # (n, C), zero at the own label
    along = torch.einsum("nk,nkc->nc", across[labels], toward)
    blocks = M.reshape(classes, classes, classes, classes)
    numbers = torch.arange(classes, device="cpu")
    inside = blocks[numbers, :, numbers]  # (C, C, C), products of the means of one class
    squares = torch.einsum("ck,ckl,cl->c", across, inside, across)[labels]
    shares = entries.square().sum(1)
    of_class = count * (2 * (entries * along).sum(1) - shares * squares)

    diagonal = pairs.gather(1, labels[:, None])[:, 0]
    total = space.traces
    return {
        "class": of_class,
        "cross": pairs.sum(1) - diagonal - of_class,
        "diagonal": diagonal,
        "within": total - pairs.sum(1),
        "total": total,
    }
